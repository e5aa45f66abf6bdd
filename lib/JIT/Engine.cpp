//===- Engine.cpp - compiling models in memory ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"

#include "LocalCompile.h"

using namespace mpc;

Result<Engine> Engine::create(Device device) {
  if (device.needsCode() && device.architecture().empty() &&
      !TargetInfo::native())
    return Status(
        StatusCode::Unavailable, "cpu",
        "this machine lacks AVX2, FMA or F16C, which compiled code needs");
  return Engine(std::move(device));
}

Result<Executable> Engine::compile(const ModelSource &model,
                                   const CompileOptions &options) const {
  CompileOptions choices = options;
  if (!target.architecture().empty())
    choices.target = "cuda:" + target.architecture();
  Result<std::unique_ptr<LocalCompile>> compile =
      LocalCompile::create(model, choices, target);
  if (!compile.ok())
    return compile.status();
  if (std::optional<LocalCompile::Found> found = (*compile)->find())
    return std::move(found->executable);
  if (Status status = (*compile)->import(); !status.ok())
    return status;
  if (std::optional<LocalCompile::Found> found = (*compile)->findFixed())
    return std::move(found->executable);
  return (*compile)->finish();
}
