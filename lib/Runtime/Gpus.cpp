//===- Gpus.cpp - enumeration of GPUs -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gpus.h"

#include "CUDA/CudaDriver.h"

using namespace mpc;
using namespace mpc::detail;

std::string GpuInfo::computeCapability() const {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string GpuInfo::architecture() const {
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

Result<std::vector<GpuInfo>> detail::listGpus(const CudaDriver &driver) {
  auto failure = [&](const char *call, int error) {
    return Status(StatusCode::Unavailable, "cuda",
                  std::string(call) + " failed with " +
                      describeError(driver, error));
  };
  if (int error = driver.init(0))
    return failure("cuInit", error);
  int count = 0;
  if (int error = driver.deviceGetCount(&count))
    return failure("cuDeviceGetCount", error);
  if (count <= 0)
    return Status(StatusCode::Unavailable, "cuda",
                  "the driver finds no GPU on this machine");
  std::vector<GpuInfo> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    if (int error = driver.deviceGet(&device, ordinal))
      return failure("cuDeviceGet", error);
    GpuInfo gpu;
    char name[256] = {};
    if (driver.deviceGetName(name, sizeof(name) - 1, device) == 0)
      gpu.name = name;
    // Attributes that the driver does not report stay 0.
    auto ask = [&](CuAttribute attribute) {
      int value = 0;
      return driver.deviceGetAttribute(&value, attribute, device) == 0 ? value
                                                                       : 0;
    };
    gpu.major = ask(kCuComputeCapabilityMajor);
    gpu.minor = ask(kCuComputeCapabilityMinor);
    gpu.multiprocessors = ask(kCuMultiprocessorCount);
    gpu.l2Bytes = ask(kCuL2CacheSize);
    gpu.clockKhz = ask(kCuClockRate);
    gpu.memoryClockKhz = ask(kCuMemoryClockRate);
    gpu.memoryBusBits = ask(kCuMemoryBusWidth);
    size_t bytes = 0;
    if (driver.deviceTotalMem(&bytes, device) == 0)
      gpu.memoryBytes = int64_t(bytes);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<std::vector<GpuInfo>> mpc::listGpus() {
  Result<CudaDriver> driver = loadCudaDriver();
  if (!driver.ok())
    return driver.status();
  return detail::listGpus(*driver);
}
