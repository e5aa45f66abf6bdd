//===- RecordingLibrary.cpp - the recording driver as libcuda.so.1 --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The recording driver under the name of the real one, for whole programs,
// which find it by LD_LIBRARY_PATH. Environment variables:
//   MPC_RECORDING_LOG      file that receives every call
//   MPC_RECORDING_VERSION  driver version to report
//   MPC_RECORDING_GPU      compute capability: "8.0"
//   MPC_RECORDING_LACKS    function that is missing
//   MPC_RECORDING_FAILS    function that fails with CUDA_ERROR_OUT_OF_MEMORY
//
//===----------------------------------------------------------------------===//

#include "../RecordingDriver.h"

#include <cstdio>
#include <cstdlib>

using namespace mpc;
using namespace mpc::detail;

static std::string setting(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Reads the settings again at every start of the driver.
static void configure() {
  recording::Machine &machine = recording::machine();
  machine = recording::Machine();
  if (std::string version = setting("MPC_RECORDING_VERSION"); !version.empty())
    machine.version = std::atoi(version.c_str());
  if (std::string gpu = setting("MPC_RECORDING_GPU"); gpu.size() >= 3) {
    machine.major = std::atoi(gpu.c_str());
    machine.minor = std::atoi(gpu.substr(gpu.find('.') + 1).c_str());
  }
  if (std::string fails = setting("MPC_RECORDING_FAILS"); !fails.empty())
    machine.failingCalls[fails] = kCuOutOfMemory;
  static std::FILE *log = nullptr;
  if (std::string path = setting("MPC_RECORDING_LOG"); !log && !path.empty())
    log = std::fopen(path.c_str(), "w");
  if (log)
    recording::onCall([](const recording::Call &call) {
      std::fprintf(log, "%s%s%s\n", call.name.c_str(),
                   call.detail.empty() ? "" : " ", call.detail.c_str());
      std::fflush(log);
    });
}

/// Reports leaked objects at the end of the log.
static void finishLog() {
  if (setting("MPC_RECORDING_LOG").empty())
    return;
  std::FILE *log = std::fopen(setting("MPC_RECORDING_LOG").c_str(), "a");
  if (!log)
    return;
  for (const std::string &object : recording::alive())
    std::fprintf(log, "left: %s\n", object.c_str());
  for (const std::string &complaint : recording::complaints())
    std::fprintf(log, "wrong: %s\n", complaint.c_str());
  std::fprintf(log, "kernels run: %zu\n", recording::kernelRuns().size());
  std::fclose(log);
}

/// At process exit, or when the library is unloaded.
[[gnu::destructor]] static void finish() {
  finishLog();
  recording::release();
}

extern "C" {

[[gnu::visibility("default")]] int cuDriverGetVersion(int *version) {
  configure();
  return recording::driver().driverGetVersion(version);
}

[[gnu::visibility("default")]] int cuGetProcAddress_v2(const char *symbol,
                                                       void **function, int,
                                                       uint64_t, int *status) {
  *function = symbol == setting("MPC_RECORDING_LACKS")
                  ? nullptr
                  : recording::entryPoint(symbol);
  if (status)
    *status = *function ? 0 : 1;
  return *function ? 0 : int(kCuNotFound);
}

/// NVRTC looks for it in every driver that it finds loaded, and does without.
[[gnu::visibility("default")]] int cuGetExportTable(const void **table,
                                                    const void *) {
  *table = nullptr;
  return kCuNotFound;
}

// Entry points that host programs of tests call directly, by name.
#define MPC_EXPORT(symbol, member, parameters, arguments)                      \
  [[gnu::visibility("default")]] int symbol parameters {                       \
    return recording::driver().member arguments;                               \
  }
MPC_EXPORT(cuInit, init, (unsigned flags), (flags))
MPC_EXPORT(cuDeviceGet, deviceGet, (int *device, int ordinal),
           (device, ordinal))
MPC_EXPORT(cuDevicePrimaryCtxRetain, devicePrimaryCtxRetain,
           (void **context, int device), (context, device))
MPC_EXPORT(cuDevicePrimaryCtxRelease_v2, devicePrimaryCtxRelease, (int device),
           (device))
MPC_EXPORT(cuCtxPushCurrent_v2, ctxPushCurrent, (void *context), (context))
MPC_EXPORT(cuCtxPopCurrent_v2, ctxPopCurrent, (void **context), (context))
MPC_EXPORT(cuMemAlloc_v2, memAlloc, (CuAddress * address, size_t bytes),
           (address, bytes))
MPC_EXPORT(cuMemFree_v2, memFree, (CuAddress address), (address))
MPC_EXPORT(cuMemcpyHtoDAsync_v2, memcpyHtoDAsync,
           (CuAddress to, const void *from, size_t bytes, void *stream),
           (to, from, bytes, stream))
MPC_EXPORT(cuMemcpyDtoHAsync_v2, memcpyDtoHAsync,
           (void *to, CuAddress from, size_t bytes, void *stream),
           (to, from, bytes, stream))
MPC_EXPORT(cuStreamCreate, streamCreate, (void **stream, unsigned flags),
           (stream, flags))
MPC_EXPORT(cuStreamSynchronize, streamSynchronize, (void *stream), (stream))
MPC_EXPORT(cuStreamDestroy_v2, streamDestroy, (void *stream), (stream))
#undef MPC_EXPORT

/// For tests in Python: what every kernel does, after the driver's start.
[[gnu::visibility("default")]] void
recordingSetBody(void (*body)(void *const *parameters, int count)) {
  recording::machine().kernels["*"] =
      [body](const std::vector<void *> &parameters) {
        if (body)
          body(parameters.data(), int(parameters.size()));
      };
}

/// Calls of that name so far.
[[gnu::visibility("default")]] long recordingCount(const char *name) {
  return recording::count(name);
}

/// Invalid uses of the driver.
[[gnu::visibility("default")]] long recordingComplaints() {
  return long(recording::complaints().size());
}

} // extern "C"
