//===- DeviceCompilation.cpp - compile for this process -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceCompilation.h"

#include "Runtime/Container/CodeObject.h"

using namespace mpc;

Result<std::unique_ptr<DeviceCompilation>>
DeviceCompilation::create(const ModelSource &model,
                          const CompileOptions &options, Device device) {
  Result<TargetInfo> target = resolveTarget(options);
  if (!target.ok())
    return target.status();
  return std::unique_ptr<DeviceCompilation>(
      new DeviceCompilation(model, options, std::move(device), *target));
}

DeviceCompilation::DeviceCompilation(const ModelSource &model,
                                     const CompileOptions &options,
                                     Device device, const TargetInfo &target)
    : model(model), options(options), device(std::move(device)), info(target) {
  if (this->device.needsCode() && !info.isGpu()) {
    cache.emplace(model, info, options);
    if (!cache->keeps())
      cache.reset();
  }
}

std::optional<DeviceCompilation::Found> DeviceCompilation::find() {
  return cache ? load(cache->find()) : std::nullopt;
}

std::optional<DeviceCompilation::Found> DeviceCompilation::findFixed() {
  if (!cache || compiler->fixedInputs().empty())
    return std::nullopt;
  return load(cache->find(/*spoken=*/true));
}

std::optional<DeviceCompilation::Found>
DeviceCompilation::load(std::optional<CachedCompile> kept) {
  if (!kept)
    return std::nullopt;
  Result<Executable> executable =
      kept->file.load(device, {.trusted = true,
                               .isa = std::string(levelOf(info.name())),
                               .maxMemory = options.maxMemory});
  if (!executable.ok())
    return std::nullopt;
  return Found{std::move(*executable), std::move(kept->file)};
}

Status DeviceCompilation::import() {
  CompileOptions choices = options;
  if (cache)
    choices.onDiagnostic = recordInto(messages, options.onDiagnostic);
  compiler.emplace(model, choices, /*manyTargets=*/false,
                   cache ? cache->weights() : nullptr);
  Status status = compiler->import(info);
  if (status.ok() && cache && !compiler->fixedInputs().empty())
    cache->fixInputs(compiler->fixedInputs());
  return status;
}

Result<Executable> DeviceCompilation::finish() {
  // The cacheable file form needs a linker.
  if (!cache || !hasLinker()) {
    Result<std::shared_ptr<Program>> program =
        compiler->finalizeInMemory(device.needsCode());
    if (!program.ok())
      return program.status();
    return Executable::create(device, std::move(*program));
  }
  if (Status status = compiler->finish(); !status.ok())
    return status;
  auto program = std::make_shared<Program>(compiler->program());
  if (Status status = mpc::detail::loadCode(
          compiler->object(), model.name() + ": " + info.name(), *program);
      !status.ok())
    return status;
  Result<Executable> executable =
      Executable::create(device, std::move(program));
  if (executable.ok())
    keep();
  return executable;
}

void DeviceCompilation::keep() {
  // A result that cannot be encoded is just not cached.
  if (Result<std::vector<std::byte>> bytes =
          compiler->encode(/*refersToWeights=*/true);
      bytes.ok())
    cache->store(*bytes, messages);
}

Result<mpc::detail::SpecializationTable::Made>
mpc::compileForDevice(const ModelSource &model, CompileOptions options,
                      const Device &device) {
  if (!device.architecture().empty())
    options.target = "cuda:" + device.architecture();
  Result<std::unique_ptr<DeviceCompilation>> compile =
      DeviceCompilation::create(model, options, device);
  if (!compile.ok())
    return compile.status();
  // Found without an import: no input became a constant.
  if (std::optional<DeviceCompilation::Found> found = (*compile)->find())
    return mpc::detail::SpecializationTable::Made{std::move(found->executable),
                                                  {}};
  if (Status status = (*compile)->import(); !status.ok())
    return status;
  std::set<std::string> fixed = (*compile)->fixedInputs();
  if (std::optional<DeviceCompilation::Found> found = (*compile)->findFixed())
    return mpc::detail::SpecializationTable::Made{std::move(found->executable),
                                                  fixed};
  Result<Executable> executable = (*compile)->finish();
  if (!executable.ok())
    return executable.status();
  return mpc::detail::SpecializationTable::Made{std::move(*executable), fixed};
}
