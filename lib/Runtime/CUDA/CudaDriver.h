//===- CudaDriver.h - entry points of the CUDA driver -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of libcuda that mpc calls, loaded at run time, and the
// constants of its ABI. A table, so that tests can substitute a fake driver;
// tests also compare everything with the toolkit's header.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDADRIVER_H
#define MPC_LIB_RUNTIME_CUDA_CUDADRIVER_H

#include "mpc/Runtime/Gpus.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace mpc::detail {

/// A CUresult; 0 is success.
using CuResult = int;
/// A CUdevice.
using CuDevice = int;
/// A CUdeviceptr.
using CuAddress = unsigned long long;
/// A CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphExec
/// or CUmemoryPool.
using CuHandle = void *;
/// A CUlaunchAttribute with a value of 4 bytes.
struct CuLaunchAttribute {
  int id = 0, padding = 0;
  int value = 0, rest[15] = {};
};
/// A CUlaunchConfig.
struct CuLaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1;
  unsigned blockX = 1, blockY = 1, blockZ = 1;
  unsigned sharedBytes = 0;
  CuHandle stream = nullptr;
  CuLaunchAttribute *attributes = nullptr;
  unsigned attributeCount = 0;
};
/// CUlaunchAttributeID of programmatic dependent launch: a kernel may start
/// before its predecessor on the stream has finished, and waits for it itself.
inline constexpr int kCuProgrammaticStreamSerialization = 6;
/// A CUstreamCallback.
using CuCallback = void (*)(CuHandle stream, CuResult result, void *data);

/// CUresults that mpc distinguishes.
enum CuError : int {
  kCuInvalidValue = 1,
  kCuOutOfMemory = 2,
  kCuDeviceUnavailable = 46,
  kCuNoDevice = 100,
  kCuInvalidDevice = 101,
  kCuInvalidImage = 200,
  kCuNoBinaryForGpu = 209,
  kCuUnsupportedPtx = 222,
  kCuNotFound = 500,
  kCuNotReady = 600,
  kCuIllegalAddress = 700,
  kCuLaunchFailed = 719,
  kCuSystemDriverMismatch = 803,
  kCuCompatNotSupported = 804,
  kCuGraphUpdateFailure = 910,
  kCuUnknown = 999,
};

/// CUdevice_attributes.
enum CuAttribute : int {
  kCuMaxThreadsPerBlock = 1,
  kCuMaxGridX = 5,
  kCuMaxGridY = 6,
  kCuMaxGridZ = 7,
  kCuClockRate = 13,
  kCuMultiprocessorCount = 16,
  kCuMemoryClockRate = 36,
  kCuMemoryBusWidth = 37,
  kCuL2CacheSize = 38,
  kCuComputeCapabilityMajor = 75,
  kCuComputeCapabilityMinor = 76,
  kCuMaxSharedMemoryOptin = 97,
  kCuMemoryPoolsSupported = 115,
};

inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDefault = 0;
inline constexpr unsigned kCuEventDisableTiming = 2;
/// During capture: the graph records the event in every launch.
inline constexpr unsigned kCuEventRecordExternal = 1;
inline constexpr int kCuCaptureThreadLocal = 1;
inline constexpr int kCuFunctionMaxDynamicShared = 8;
inline constexpr int kCuPoolReleaseThreshold = 4;

/// CUmemPoolProps: memory of one device, for this process only.
struct CuPoolProps {
  int allocationType = 1;
  int handleTypes = 0;
  int locationType = 1;
  int locationId = 0;
  void *securityAttributes = nullptr;
  size_t maxSize = 0;
  unsigned char reserved[56] = {};
};

/// CUgraphExecUpdateResultInfo.
struct CuGraphUpdateResult {
  int result = 0;
  CuHandle errorNode = nullptr;
  CuHandle errorFromNode = nullptr;
};

/// Function table of the driver, by its API names.
struct CudaDriver {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*deviceGetCount)(int *count) = nullptr;
  CuResult (*deviceGet)(CuDevice *device, int ordinal) = nullptr;
  CuResult (*deviceGetName)(char *name, int length, CuDevice device) = nullptr;
  CuResult (*deviceGetAttribute)(int *value, int attribute,
                                 CuDevice device) = nullptr;
  CuResult (*deviceTotalMem)(size_t *bytes, CuDevice device) = nullptr;
  CuResult (*getErrorName)(CuResult error, const char **name) = nullptr;
  CuResult (*getErrorString)(CuResult error, const char **text) = nullptr;
  CuResult (*driverGetVersion)(int *version) = nullptr;

  CuResult (*devicePrimaryCtxRetain)(CuHandle *context,
                                     CuDevice device) = nullptr;
  CuResult (*devicePrimaryCtxRelease)(CuDevice device) = nullptr;
  CuResult (*ctxPushCurrent)(CuHandle context) = nullptr;
  CuResult (*ctxPopCurrent)(CuHandle *context) = nullptr;

  CuResult (*moduleLoadData)(CuHandle *module, const void *image) = nullptr;
  CuResult (*moduleUnload)(CuHandle module) = nullptr;
  CuResult (*moduleGetFunction)(CuHandle *function, CuHandle module,
                                const char *name) = nullptr;
  CuResult (*funcSetAttribute)(CuHandle function, int attribute,
                               int value) = nullptr;

  CuResult (*memAlloc)(CuAddress *address, size_t bytes) = nullptr;
  CuResult (*memFree)(CuAddress address) = nullptr;
  CuResult (*memPoolCreate)(CuHandle *pool, const CuPoolProps *props) = nullptr;
  CuResult (*memPoolDestroy)(CuHandle pool) = nullptr;
  CuResult (*memPoolSetAttribute)(CuHandle pool, int attribute,
                                  void *value) = nullptr;
  CuResult (*memAllocFromPoolAsync)(CuAddress *address, size_t bytes,
                                    CuHandle pool, CuHandle stream) = nullptr;
  CuResult (*memFreeAsync)(CuAddress address, CuHandle stream) = nullptr;
  CuResult (*memHostAlloc)(void **memory, size_t bytes,
                           unsigned flags) = nullptr;
  CuResult (*memFreeHost)(void *memory) = nullptr;
  CuResult (*memcpyHtoDAsync)(CuAddress to, const void *from, size_t bytes,
                              CuHandle stream) = nullptr;
  CuResult (*memcpyDtoHAsync)(void *to, CuAddress from, size_t bytes,
                              CuHandle stream) = nullptr;
  CuResult (*memcpyDtoDAsync)(CuAddress to, CuAddress from, size_t bytes,
                              CuHandle stream) = nullptr;
  CuResult (*memsetD8Async)(CuAddress to, unsigned char value, size_t bytes,
                            CuHandle stream) = nullptr;

  CuResult (*streamCreate)(CuHandle *stream, unsigned flags) = nullptr;
  CuResult (*streamDestroy)(CuHandle stream) = nullptr;
  CuResult (*streamSynchronize)(CuHandle stream) = nullptr;
  CuResult (*streamQuery)(CuHandle stream) = nullptr;
  CuResult (*streamWaitEvent)(CuHandle stream, CuHandle event,
                              unsigned flags) = nullptr;
  CuResult (*streamAddCallback)(CuHandle stream, CuCallback callback,
                                void *data, unsigned flags) = nullptr;
  CuResult (*streamIsCapturing)(CuHandle stream, int *status) = nullptr;
  CuResult (*streamBeginCapture)(CuHandle stream, int mode) = nullptr;
  CuResult (*streamEndCapture)(CuHandle stream, CuHandle *graph) = nullptr;

  CuResult (*eventCreate)(CuHandle *event, unsigned flags) = nullptr;
  CuResult (*eventDestroy)(CuHandle event) = nullptr;
  CuResult (*eventRecord)(CuHandle event, CuHandle stream) = nullptr;
  CuResult (*eventRecordWithFlags)(CuHandle event, CuHandle stream,
                                   unsigned flags) = nullptr;
  CuResult (*eventQuery)(CuHandle event) = nullptr;
  CuResult (*eventSynchronize)(CuHandle event) = nullptr;
  CuResult (*eventElapsedTime)(float *milliseconds, CuHandle start,
                               CuHandle end) = nullptr;

  CuResult (*graphDestroy)(CuHandle graph) = nullptr;
  CuResult (*graphInstantiate)(CuHandle *exec, CuHandle graph,
                               unsigned long long flags) = nullptr;
  CuResult (*graphExecUpdate)(CuHandle exec, CuHandle graph,
                              CuGraphUpdateResult *result) = nullptr;
  CuResult (*graphExecDestroy)(CuHandle exec) = nullptr;
  CuResult (*graphLaunch)(CuHandle exec, CuHandle stream) = nullptr;
  CuResult (*launchKernel)(CuHandle function, unsigned gridX, unsigned gridY,
                           unsigned gridZ, unsigned blockX, unsigned blockY,
                           unsigned blockZ, unsigned sharedBytes,
                           CuHandle stream, void **parameters,
                           void **extra) = nullptr;
  CuResult (*launchKernelEx)(const CuLaunchConfig *config, CuHandle function,
                             void **parameters, void **extra) = nullptr;
  CuResult (*launchCooperativeKernel)(CuHandle function, unsigned gridX,
                                      unsigned gridY, unsigned gridZ,
                                      unsigned blockX, unsigned blockY,
                                      unsigned blockZ, unsigned sharedBytes,
                                      CuHandle stream,
                                      void **parameters) = nullptr;
  CuResult (*occupancyMaxActiveBlocks)(int *blocks, CuHandle function,
                                       int threads,
                                       size_t sharedBytes) = nullptr;
};

/// Calls `visit(name, pointer)` for every function of `driver`, a CudaDriver,
/// with the driver's symbol ("cuInit").
template <typename Driver, typename Visit>
void visitEntryPoints(Driver &driver, Visit &&visit) {
  visit("cuInit", driver.init);
  visit("cuDeviceGetCount", driver.deviceGetCount);
  visit("cuDeviceGet", driver.deviceGet);
  visit("cuDeviceGetName", driver.deviceGetName);
  visit("cuDeviceGetAttribute", driver.deviceGetAttribute);
  visit("cuDeviceTotalMem", driver.deviceTotalMem);
  visit("cuGetErrorName", driver.getErrorName);
  visit("cuGetErrorString", driver.getErrorString);
  visit("cuDriverGetVersion", driver.driverGetVersion);
  visit("cuDevicePrimaryCtxRetain", driver.devicePrimaryCtxRetain);
  visit("cuDevicePrimaryCtxRelease", driver.devicePrimaryCtxRelease);
  visit("cuCtxPushCurrent", driver.ctxPushCurrent);
  visit("cuCtxPopCurrent", driver.ctxPopCurrent);
  visit("cuModuleLoadData", driver.moduleLoadData);
  visit("cuModuleUnload", driver.moduleUnload);
  visit("cuModuleGetFunction", driver.moduleGetFunction);
  visit("cuFuncSetAttribute", driver.funcSetAttribute);
  visit("cuMemAlloc", driver.memAlloc);
  visit("cuMemFree", driver.memFree);
  visit("cuMemPoolCreate", driver.memPoolCreate);
  visit("cuMemPoolDestroy", driver.memPoolDestroy);
  visit("cuMemPoolSetAttribute", driver.memPoolSetAttribute);
  visit("cuMemAllocFromPoolAsync", driver.memAllocFromPoolAsync);
  visit("cuMemFreeAsync", driver.memFreeAsync);
  visit("cuMemHostAlloc", driver.memHostAlloc);
  visit("cuMemFreeHost", driver.memFreeHost);
  visit("cuMemcpyHtoDAsync", driver.memcpyHtoDAsync);
  visit("cuMemcpyDtoHAsync", driver.memcpyDtoHAsync);
  visit("cuMemcpyDtoDAsync", driver.memcpyDtoDAsync);
  visit("cuMemsetD8Async", driver.memsetD8Async);
  visit("cuStreamCreate", driver.streamCreate);
  visit("cuStreamDestroy", driver.streamDestroy);
  visit("cuStreamSynchronize", driver.streamSynchronize);
  visit("cuStreamQuery", driver.streamQuery);
  visit("cuStreamWaitEvent", driver.streamWaitEvent);
  visit("cuStreamAddCallback", driver.streamAddCallback);
  visit("cuStreamIsCapturing", driver.streamIsCapturing);
  visit("cuStreamBeginCapture", driver.streamBeginCapture);
  visit("cuStreamEndCapture", driver.streamEndCapture);
  visit("cuEventCreate", driver.eventCreate);
  visit("cuEventDestroy", driver.eventDestroy);
  visit("cuEventRecord", driver.eventRecord);
  visit("cuEventRecordWithFlags", driver.eventRecordWithFlags);
  visit("cuEventQuery", driver.eventQuery);
  visit("cuEventSynchronize", driver.eventSynchronize);
  visit("cuEventElapsedTime", driver.eventElapsedTime);
  visit("cuGraphDestroy", driver.graphDestroy);
  visit("cuGraphInstantiateWithFlags", driver.graphInstantiate);
  visit("cuGraphExecUpdate", driver.graphExecUpdate);
  visit("cuGraphExecDestroy", driver.graphExecDestroy);
  visit("cuGraphLaunch", driver.graphLaunch);
  visit("cuLaunchKernel", driver.launchKernel);
  visit("cuLaunchKernelEx", driver.launchKernelEx);
  visit("cuLaunchCooperativeKernel", driver.launchCooperativeKernel);
  visit("cuOccupancyMaxActiveBlocksPerMultiprocessor",
        driver.occupancyMaxActiveBlocks);
}

/// API version of the table, in the driver's encoding (12.0), and oldest
/// supported driver.
inline constexpr int kCudaInterface = 12000;

/// Soname of the driver's library, always found by the loader's search.
inline constexpr const char *kCudaLibrary = "libcuda.so.1";

/// Loads `library` and its functions. The library stays loaded. Unavailable,
/// with the reason, if it is missing, not a driver, or older than
/// kCudaInterface.
Result<CudaDriver> loadCudaDriver(const char *library = kCudaLibrary);

/// Initializes the driver and lists its GPUs; Unavailable if there are none.
Result<std::vector<GpuInfo>> listGpus(const CudaDriver &driver);

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string describeError(const CudaDriver &driver, CuResult error);

/// Returns success, or that driver function `call` failed at `where`.
Status toStatus(const CudaDriver &driver, CuResult error, const char *call,
                const std::string &where);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDADRIVER_H
