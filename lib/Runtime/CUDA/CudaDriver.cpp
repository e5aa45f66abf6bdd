//===- CudaDriver.cpp - entry points of the CUDA driver -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <dlfcn.h>

#include <type_traits>

using namespace mpc;
using namespace mpc::detail;

/// cuGetProcAddress_v2: returns the function `symbol` of the API version
/// `version`.
using GetProcAddress = CuResult (*)(const char *symbol, void **function,
                                    int version, uint64_t flags, int *status);

static Status cudaUnavailable(std::string text) {
  return Status(StatusCode::Unavailable, "cuda", std::move(text));
}

/// Formats a version: "12.0" for 12000.
static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

/// Fills the table from a loaded library.
static Result<CudaDriver> findEntryPoints(void *handle, const char *library) {
  using GetVersion = CuResult (*)(int *version);
  auto getVersion =
      reinterpret_cast<GetVersion>(dlsym(handle, "cuDriverGetVersion"));
  if (!getVersion)
    return cudaUnavailable(
        std::string(library) +
        " lacks cuDriverGetVersion; it is not a CUDA driver");
  int version = 0;
  if (getVersion(&version) != 0 || version < kCudaInterface)
    return cudaUnavailable("the driver in " + std::string(library) +
                           " supports CUDA " + versionText(version) + ", but " +
                           versionText(kCudaInterface) +
                           " or newer is needed; update the NVIDIA driver");
  auto getProcAddress =
      reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"));
  if (!getProcAddress)
    return cudaUnavailable(
        std::string(library) +
        " lacks cuGetProcAddress_v2; it is not a complete driver");
  CudaDriver driver;
  std::string missing;
  visitEntryPoints(driver, [&](const char *name, auto &function) {
    void *address = nullptr;
    int status = 0;
    if (getProcAddress(name, &address, kCudaInterface, 0, &status) != 0 ||
        !address)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  });
  if (!missing.empty())
    return cudaUnavailable(std::string(library) + " lacks " + missing +
                           "; it is not a complete driver");
  return driver;
}

Result<CudaDriver> detail::loadCudaDriver(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return cudaUnavailable(
        std::string("the driver's library ") + library +
        " cannot be loaded; install the NVIDIA driver to use a "
        "GPU");
  Result<CudaDriver> driver = findEntryPoints(handle, library);
  if (!driver.ok())
    dlclose(handle);
  return driver;
}

std::string detail::describeError(const CudaDriver &driver, CuResult error) {
  const char *name = nullptr, *text = nullptr;
  if (driver.getErrorName)
    driver.getErrorName(error, &name);
  if (driver.getErrorString)
    driver.getErrorString(error, &text);
  std::string described = name ? name : "error " + std::to_string(error);
  return text ? described + " (" + text + ")" : described;
}

/// Maps a driver error to a status code.
static StatusCode codeOf(CuResult error) {
  switch (error) {
  case kCuOutOfMemory:
    return StatusCode::ResourceExhausted;
  case kCuDeviceUnavailable:
  case kCuNoDevice:
  case kCuInvalidDevice:
  case kCuNoBinaryForGpu:
  case kCuUnsupportedPtx:
  case kCuSystemDriverMismatch:
  case kCuCompatNotSupported:
    return StatusCode::Unavailable;
  case kCuInvalidImage:
    return StatusCode::InvalidArgument;
  default:
    return StatusCode::Internal;
  }
}

Status detail::toStatus(const CudaDriver &driver, CuResult error,
                        const char *call, const std::string &where) {
  if (error == 0)
    return {};
  return Status(codeOf(error), where,
                std::string(call) + " failed with " +
                    describeError(driver, error));
}
