//===- Gpus.cpp - the GPUs of this machine --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gpus.h"

#include "CudaDriver.h"

#include <dlfcn.h>

using namespace mpc;
using namespace mpc::detail;

/// Numbers of the driver's public CUdevice_attribute.
enum Attribute : int {
  kClockRate = 13,
  kMultiprocessorCount = 16,
  kMemoryClockRate = 36,
  kMemoryBusWidth = 37,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
};

std::string GpuInfo::computeCapability() const {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string GpuInfo::architecture() const {
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

Result<CudaDriver> detail::loadCudaDriver(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status(StatusCode::Unavailable, "cuda",
                  std::string("the driver's library ") + library +
                      " cannot be loaded; install the NVIDIA driver to use a "
                      "GPU");
  CudaDriver driver;
  const char *missing = nullptr;
  auto find = [&](auto &function, const char *name) {
    void *address = dlsym(handle, name);
    if (!address)
      missing = name;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find(driver.getErrorName, "cuGetErrorName");
  missing = nullptr;
  find(driver.init, "cuInit");
  find(driver.deviceGetCount, "cuDeviceGetCount");
  find(driver.deviceGet, "cuDeviceGet");
  find(driver.deviceGetName, "cuDeviceGetName");
  find(driver.deviceGetAttribute, "cuDeviceGetAttribute");
  find(driver.deviceTotalMem, "cuDeviceTotalMem_v2");
  if (missing) {
    std::string text = std::string(library) + " lacks " + missing +
                       "; it is no driver or one that is too old";
    dlclose(handle);
    return Status(StatusCode::Unavailable, "cuda", text);
  }
  return driver;
}

Result<std::vector<GpuInfo>> detail::listGpus(const CudaDriver &driver) {
  auto failure = [&](const char *call, int error) {
    const char *name = nullptr;
    if (driver.getErrorName)
      driver.getErrorName(error, &name);
    return Status(StatusCode::Unavailable, "cuda",
                  std::string(call) + " failed with " +
                      (name ? name : "error " + std::to_string(error)));
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
    // What the driver does not tell stays 0.
    auto ask = [&](Attribute attribute) {
      int value = 0;
      return driver.deviceGetAttribute(&value, attribute, device) == 0 ? value
                                                                       : 0;
    };
    gpu.major = ask(kComputeCapabilityMajor);
    gpu.minor = ask(kComputeCapabilityMinor);
    gpu.multiprocessors = ask(kMultiprocessorCount);
    gpu.l2Bytes = ask(kL2CacheSize);
    gpu.clockKhz = ask(kClockRate);
    gpu.memoryClockKhz = ask(kMemoryClockRate);
    gpu.memoryBusBits = ask(kMemoryBusWidth);
    size_t bytes = 0;
    if (driver.deviceTotalMem(&bytes, device) == 0)
      gpu.memoryBytes = int64_t(bytes);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<std::vector<GpuInfo>> mpc::listGpus() {
  // The loader's name of the driver, which never lies in a folder of ours.
  Result<CudaDriver> driver = loadCudaDriver("libcuda.so.1");
  if (!driver.ok())
    return driver.status();
  return detail::listGpus(*driver);
}
