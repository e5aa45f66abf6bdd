//===- CompileSubject.cpp - a model that is compiled to run ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FastPath.h"
#include "Inputs.h"
#include "StoredModel.h"
#include "Subject.h"

#include "JIT/Compiler.h"

#include "mpc/Analysis/IndexBounds.h"

using namespace mpc;
using namespace mpc::tool;

/// Inputs of a training step: a batch, and what it keeps as at the start.
/// `bounds` are those of its integers.
static std::vector<Status> bindStep(const Program &program,
                                    llvm::ArrayRef<int64_t> bounds,
                                    const std::vector<NamedArray> &arrays,
                                    uint64_t seed,
                                    std::vector<Buffer> &inputs) {
  if (!arrays.empty())
    return bindArrays(arrays, program.arguments, "arg", inputs);
  std::vector<StoredValue> wanted;
  for (auto [value, bound] : llvm::zip_equal(program.arguments, bounds))
    wanted.push_back({.name = value.name,
                      .type = value.type,
                      .role = value.role,
                      .integerBound = bound,
                      .initial = value.initial});
  Result<std::vector<Buffer>> drawn = drawValues(wanted, seed);
  if (!drawn.ok())
    return {drawn.status()};
  inputs = std::move(*drawn);
  return {};
}

std::vector<Status> tool::compileSubject(const CommonOptions &common,
                                         const std::vector<NamedArray> &arrays,
                                         bool draw, const Device &device,
                                         Reporter &reporter, Subject &subject,
                                         const std::string &training) {
  Result<CompileOptions> options = makeCompileOptions(common, device, reporter);
  if (!options.ok())
    return {options.status()};
  if (Status status = setTraining(training, *options); !status.ok())
    return {status};
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
  llvm::SmallVector<int64_t> bounds;
  if (options->training) {
    start = Clock::now();
    // Labels are not in the model; precision leaves the ops that index.
    if (Status status = (*compiler)->runStages(**module, "import", "precision");
        !status.ok())
      return {status};
    subject.compileMs += millisecondsSince(start);
    entry = Compiler::entry(**module);
    for (mlir::BlockArgument argument : entry.getArguments())
      bounds.push_back(indexBound(argument).value_or(0));
  } else if (draw && arrays.empty()) {
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
  if (Status status = (*compiler)->runStages(
          **module, options->training ? "precision" : "import", "plan");
      !status.ok())
    return {status};
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, device.needsCode());
  if (!program.ok())
    return {program.status()};
  subject.compileMs += millisecondsSince(start);
  if (options->training)
    if (std::vector<Status> problems =
            bindStep(**program, bounds, arrays, common.seed, subject.inputs);
        !problems.empty())
      return problems;
  Result<Executable> executable = Executable::create(device, *program);
  if (!executable.ok())
    return {executable.status()};
  subject.executable = *executable;
  subject.policy = options->policy;
  subject.isa = (*compiler)->target().member().str();
  // The compiler goes here: its memory is not the model's.
  return {};
}
