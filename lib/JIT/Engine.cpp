//===- Engine.cpp - compiling models in memory ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"

#include "Compiler.h"

using namespace mpc;

Result<Engine> Engine::create(Device device) {
  if (device.needsCode() && device.architecture().empty() &&
      !TargetInfo::native())
    return Status(
        StatusCode::Unavailable, "cpu",
        "this machine lacks AVX2, FMA or F16C, which compiled code needs");
  return Engine(std::move(device));
}

Result<Executable> Engine::compileFile(const std::string &path,
                                       const CompileOptions &options) const {
  CompileOptions choices = options;
  if (!target.architecture().empty())
    choices.target = "cuda:" + target.architecture();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(choices);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(path);
  if (!module.ok())
    return module.status();
  if (Status status = (*compiler)->runStages(**module, "import", "plan");
      !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program =
      (*compiler)->generate(**module, target.needsCode());
  if (!program.ok())
    return program.status();
  return Executable::create(target, std::move(*program));
}
