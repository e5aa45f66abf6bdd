//===- Engine.cpp - just-in-time compilation ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Engine.h"

#include "DeviceCompilation.h"
#include "ModelState.h"

using namespace mpc;

Result<Engine> Engine::create(Device device, EngineLimits limits) {
  if (device.needsCode() && device.architecture().empty() &&
      !TargetInfo::native())
    return Status(
        StatusCode::Unavailable, "cpu",
        "this machine lacks AVX2, FMA or F16C, which compiled code needs");
  return Engine(std::move(device),
                std::make_shared<mpc::detail::SpecializationTable>(limits));
}

Result<Executable> Engine::compile(const ModelSource &model,
                                   const CompileOptions &options) const {
  Result<mpc::detail::SpecializationTable::Made> made =
      compileForDevice(model, options, target);
  if (!made.ok())
    return made.status();
  return std::move(made->executable);
}

Model Engine::open(const ModelSource &model,
                   const CompileOptions &options) const {
  return Model(std::make_shared<const Model::State>(Model::State{
      model, options, target, kept, kept->nextModel(),
      options.buckets.empty()
          ? nullptr
          : std::make_shared<mpc::detail::Buckets>(model, options)}));
}
