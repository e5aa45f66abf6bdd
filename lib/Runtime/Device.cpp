//===- Device.cpp - devices that run programs -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Device.h"

#include "CPU/CpuDevice.h"
#include "CUDA/CublasLibrary.h"
#include "CUDA/CudaDevice.h"
#include "CUDA/KernelCompiler.h"
#include "CUDA/NcclLibrary.h"
#include "DeviceImpl.h"
#include "Environment.h"
#include "Null/NullDevice.h"

#include "mpc/Runtime/RankDevice.h"

#include <algorithm>
#include <vector>

#include <sched.h>

using namespace mpc;

void *detail::Addresses::resolve(const BufferRef &ref) const {
  void *base = arena;
  switch (ref.kind) {
  case BufferRef::Kind::Argument:
    base = arguments[ref.index];
    break;
  case BufferRef::Kind::Result:
    base = results[ref.index];
    break;
  case BufferRef::Kind::Constant:
    base = constants[ref.index];
    break;
  case BufferRef::Kind::Arena:
    break;
  case BufferRef::Kind::Checks:
    base = checks;
    break;
  }
  return static_cast<char *>(base) + ref.offset;
}

int mpc::availableCores() {
  std::vector<cpu_set_t> set = detail::affinityOf(0);
  int cores = CPU_COUNT_S(set.size() * sizeof(cpu_set_t), set.data());
  return std::max(1, std::min(cores, detail::quotaCores()));
}

Result<Device> Device::cpu(const CpuDeviceOptions &options) {
  if (options.threads < 0 || options.threads > detail::kMostCpuThreads)
    return Status(StatusCode::InvalidArgument, "threads",
                  "must lie between 0 and " +
                      std::to_string(detail::kMostCpuThreads) + ", but is " +
                      std::to_string(options.threads));
  int threads = options.threads ? options.threads : availableCores();
  return Device(detail::createCpuDevice(threads, options.parallelFor));
}

/// Creates a GPU device; one of `group`'s ranks if that is set.
static Result<std::shared_ptr<detail::DeviceImpl>>
makeCuda(const CudaDeviceOptions &options,
         const std::shared_ptr<Communicator> &group) {
  if (options.compileThreads < 0 ||
      options.compileThreads > detail::kMostCpuThreads)
    return Status(StatusCode::InvalidArgument, "compileThreads",
                  "must lie between 0 and " +
                      std::to_string(detail::kMostCpuThreads) + ", but is " +
                      std::to_string(options.compileThreads));
  Result<detail::CudaDriver> driver = detail::loadCudaDriver();
  if (!driver.ok())
    return driver.status();
  detail::CudaServices services;
  services.compile =
      [threads = options.compileThreads](const CudaCode &code,
                                         const std::string &architecture) {
        detail::KernelCompileOptions choices;
        choices.threads = threads;
        return detail::compileKernels(code, architecture, choices);
      };
  services.openGemmLibrary = [](std::shared_ptr<detail::CudaContext> context)
      -> Result<std::shared_ptr<detail::GemmLibrary>> {
    Result<const detail::Blas *> blas = detail::installedBlas();
    if (!blas.ok())
      return blas.status();
    std::string folder = detail::cacheFolder();
    return detail::openBlasLibrary(**blas, std::move(context),
                                   folder.empty() ? folder : folder + "/gemm");
  };
  if (group && group->size() > 1) {
    services.ranks = group->size();
    services.joinRanks = [group](std::shared_ptr<detail::CudaContext> context) {
      return detail::joinNccl(detail::installedNccl(), std::move(context),
                              *group);
    };
  }
  return detail::createCudaDevice(*driver, options, std::move(services));
}

Result<Device> Device::cuda(const CudaDeviceOptions &options) {
  Result<std::shared_ptr<detail::DeviceImpl>> impl =
      makeCuda(options, /*group=*/nullptr);
  if (!impl.ok())
    return impl.status();
  return Device(std::move(*impl));
}

Result<Device> mpc::cudaForRanks(const CudaDeviceOptions &options,
                                 const std::shared_ptr<Communicator> &group) {
  Result<std::shared_ptr<detail::DeviceImpl>> impl = makeCuda(options, group);
  if (!impl.ok())
    return impl.status();
  return detail::DeviceAccess::make(std::move(*impl));
}

int64_t mpc::ranksOf(const Device &device) {
  return detail::DeviceAccess::impl(device)->ranks();
}

Device Device::null() { return Device(detail::createNullDevice()); }

const std::string &Device::name() const { return impl->name(); }
const std::string &Device::architecture() const { return impl->architecture(); }
bool Device::hasOwnMemory() const { return impl->hasOwnMemory(); }
int Device::threads() const { return impl->threads(); }
bool Device::needsCode() const { return impl->needsCode(); }
