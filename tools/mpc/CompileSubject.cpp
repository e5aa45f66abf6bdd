//===- CompileSubject.cpp - a model that is compiled to run ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FastPath.h"
#include "Inputs.h"
#include "Subject.h"

#include "JIT/Compiler.h"

using namespace mpc;
using namespace mpc::tool;

std::vector<Status> tool::compileSubject(const CommonOptions &common,
                                         const std::vector<NamedArray> &arrays,
                                         bool draw, Device device,
                                         Reporter &reporter, Subject &subject) {
  Result<CompileOptions> options = makeCompileOptions(common, device, reporter);
  if (!options.ok())
    return {options.status()};
  reportFastPath(*options, reporter);
  addInputShapes(arrays, *options);
  auto start = Clock::now();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(*options);
  if (!compiler.ok())
    return {compiler.status()};
  Result<Compiler::Module> module = (*compiler)->import(common.model);
  if (!module.ok())
    return {module.status()};
  subject.compileMs = millisecondsSince(start);
  mlir::func::FuncOp entry = Compiler::entry(**module);
  if (draw && arrays.empty()) {
    Result<std::vector<Buffer>> drawn = drawInputs(entry, common.seed);
    if (!drawn.ok())
      return {drawn.status()};
    subject.inputs = std::move(*drawn);
  } else if (std::vector<Status> problems =
                 bindArrays(arrays, argumentsOf(entry), "arg", subject.inputs);
             !problems.empty()) {
    return problems;
  }
  start = Clock::now();
  if (Status status = (*compiler)->runStages(**module, "import", "plan");
      !status.ok())
    return {status};
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, device.needsCode());
  if (!program.ok())
    return {program.status()};
  subject.compileMs += millisecondsSince(start);
  Result<Executable> executable =
      Executable::create(std::move(device), *program);
  if (!executable.ok())
    return {executable.status()};
  subject.executable = *executable;
  subject.policy = options->policy;
  subject.isa = (*compiler)->target().member().str();
  // The compiler goes here: its memory is not the model's.
  return {};
}
