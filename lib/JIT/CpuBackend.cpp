//===- CpuBackend.cpp - kernels of a program for CPUs ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuBackend.h"

#include "OrcJit.h"

#include "mpc/Support/Files.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

static Status internal(llvm::Error error) {
  return Status(StatusCode::Internal, "codegen",
                llvm::toString(std::move(error)));
}

LogicalResult CpuBackend::lower(ModuleOp kernels) {
  // What passes make on the way stands beside the stages' IR.
  auto dump = [&](StringRef name) -> LogicalResult {
    if (options.dumpDir.empty())
      return success();
    std::string text;
    llvm::raw_string_ostream(text) << *kernels << "\n";
    std::string path = options.dumpDir + "/kernels." + name.str() + ".mlir";
    if (Status status = writeWholeFile(path, {text}); !status.ok())
      return kernels.emitError() << status.toString();
    return success();
  };
  FailureOr<SmallVector<KernelInfo>> lowered = lowerKernels(kernels, dump);
  if (succeeded(lowered))
    infos = std::move(*lowered);
  return lowered;
}

Status CpuBackend::completeLaunches(Program &program) const {
  llvm::StringMap<const KernelInfo *> byName;
  for (const KernelInfo &info : infos)
    byName[info.name] = &info;
  for (Launch &launch : program.launches) {
    const KernelInfo *info = byName.lookup(launch.kernel);
    if (!info)
      return Status(StatusCode::Internal, "codegen",
                    "kernel '" + launch.kernel + "' was lost");
    launch.items = info->items;
    launch.grain = info->grain;
    launch.scratchBytes = info->scratchBytes;
  }
  return {};
}

Status CpuBackend::generate(ModuleOp lowered, Program &program) {
  if (!llvm::is_contained(TargetInfo::runnable(), target))
    return Status(StatusCode::Unavailable, "target '" + target.name() + "'",
                  "this machine lacks its instructions; only plan for it");
  llvm::Expected<std::unique_ptr<OrcJit>> jit =
      OrcJit::create(level, options.threads);
  if (!jit)
    return internal(jit.takeError());
  if (llvm::Error error = (*jit)->add(lowered))
    return internal(std::move(error));
  std::shared_ptr<OrcJit> code = std::move(*jit);
  if (Status status = completeLaunches(program); !status.ok())
    return status;
  for (Launch &launch : program.launches) {
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
  auto objects = compileObjects(lowered, level, options.threads);
  if (!objects)
    return internal(objects.takeError());
  return linkObjects(*objects);
}

std::unique_ptr<Backend> mpc::createCpuBackend(const TargetInfo &target,
                                               BackendOptions options) {
  return std::make_unique<CpuBackend>(target, std::move(options),
                                      *CpuTarget::of(target));
}
