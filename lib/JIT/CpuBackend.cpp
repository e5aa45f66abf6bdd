//===- CpuBackend.cpp - code generation for CPU kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuBackend.h"

#include "OrcJit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

static Status internal(llvm::Error error) {
  return Status(StatusCode::Internal, "codegen",
                llvm::toString(std::move(error)));
}

LogicalResult CpuBackend::lower(ModuleOp kernels) {
  FailureOr<SmallVector<KernelInfo>> lowered =
      lowerKernels(kernels, [&](StringRef name) -> LogicalResult {
        return options.stops() ? failure() : dump(kernels, name);
      });
  if (succeeded(lowered))
    infos = std::move(*lowered);
  return lowered;
}

SmallVector<Attribute> CpuBackend::neighbours(func::FuncOp kernel,
                                              Attribute around) {
  return neighbouringSchedules(kernel, level, around);
}

Status CpuBackend::completeLaunches(Program &program) const {
  llvm::StringMap<const KernelInfo *> byName;
  for (const KernelInfo &info : infos)
    byName[info.name] = &info;
  // Status words of the watched results. A kernel that other launches use for
  // unwatched results gets one as well: its counts are only suspects.
  std::map<int64_t, int64_t> words;
  for (size_t i = 0; i < program.checks.size(); ++i)
    if (program.checks[i].kind == RunCheck::Kind::FiniteResult)
      words[program.checks[i].number] = int64_t(i);
  for (Launch &launch : program.launches) {
    if (launch.collective)
      continue;
    const KernelInfo *info = byName.lookup(launch.kernel);
    if (!info)
      return Status(StatusCode::Internal, "codegen",
                    "kernel '" + launch.kernel + "' was lost");
    launch.items = info->items;
    launch.grain = info->grain;
    launch.scratchBytes = info->scratchBytes;
    launch.laterItems = info->laterItems;
    launch.sharedBytes = info->sharedBytes;
    std::vector<BufferRef> outputs;
    for (const BufferRef &ref : launch.buffers)
      if (ref.written && ref.kind != BufferRef::Kind::Checks)
        outputs.push_back(ref);
    for (int64_t result : info->watched) {
      const BufferRef &ref = outputs[size_t(result)];
      auto word = ref.kind == BufferRef::Kind::Result ? words.find(ref.index)
                                                      : words.end();
      if (word == words.end())
        word = words.begin();
      constexpr int64_t kBytes = sizeof(int64_t);
      launch.buffers.push_back({BufferRef::Kind::Checks, 0,
                                kBytes * word->second, kBytes,
                                /*written=*/true});
    }
  }
  return {};
}

Status CpuBackend::generate(ModuleOp lowered, Program &program) {
  if (!llvm::is_contained(TargetInfo::runnable(), target))
    return Status(StatusCode::Unavailable, "target '" + target.name() + "'",
                  "this CPU lacks its instructions; only explain, lint and "
                  "dump up to stage plan are available");
  llvm::Expected<std::unique_ptr<OrcJit>> jit =
      OrcJit::create(level, options.threads, options.shouldStop);
  if (!jit)
    return internal(jit.takeError());
  if (llvm::Error error = (*jit)->add(lowered))
    return internal(std::move(error));
  std::shared_ptr<OrcJit> code = std::move(*jit);
  if (Status status = completeLaunches(program); !status.ok())
    return status;
  for (Launch &launch : program.launches) {
    if (launch.collective)
      continue;
    llvm::Expected<void *> address = code->lookup(launch.kernel);
    if (!address)
      return internal(address.takeError());
    launch.function = reinterpret_cast<KernelFunction>(*address);
  }
  program.code = std::move(code);
  return {};
}

Result<std::vector<std::byte>> CpuBackend::generateFile(ModuleOp lowered,
                                                        Program &program) {
  if (Status status = completeLaunches(program); !status.ok())
    return status;
  auto objects =
      compileObjects(lowered, level, options.threads, options.shouldStop);
  if (!objects)
    return internal(objects.takeError());
  return linkObjects(*objects);
}

std::unique_ptr<Backend> mpc::createCpuBackend(const TargetInfo &target,
                                               BackendOptions options) {
  return std::make_unique<CpuBackend>(target, std::move(options),
                                      *CpuTarget::of(target));
}
