//===- DriverAbiTests.cpp - driver table against the toolkit header -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CudaDriver.h declares the driver's interface itself, so that a build needs
// no toolkit. Where the toolkit's header is installed, the two are compared.
//
//===----------------------------------------------------------------------===//

#include "CUDA/CudaDriver.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
// Types of the functions as the interface of the table's version has them.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

using namespace mpc::detail;

namespace {

/// Whether two values are passed alike: pointers, or numbers of one size.
template <typename A, typename B> constexpr bool passedAlike() {
  return sizeof(A) == sizeof(B) &&
         std::is_pointer_v<A> == std::is_pointer_v<B> &&
         std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}

template <typename... A, typename... B>
constexpr bool sameCall(CuResult (*)(A...), CUresult (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return (passedAlike<A, B>() && ...);
}

} // namespace

#define MPC_SAME(member, function)                                             \
  static_assert(sameCall(decltype(CudaDriver::member)(nullptr),                \
                         static_cast<decltype(&function)>(nullptr)),           \
                #function)

MPC_SAME(init, cuInit);
MPC_SAME(deviceGetCount, cuDeviceGetCount);
MPC_SAME(deviceGet, cuDeviceGet);
MPC_SAME(deviceGetName, cuDeviceGetName);
MPC_SAME(deviceGetAttribute, cuDeviceGetAttribute);
MPC_SAME(deviceTotalMem, cuDeviceTotalMem_v2);
MPC_SAME(getErrorName, cuGetErrorName);
MPC_SAME(getErrorString, cuGetErrorString);
MPC_SAME(driverGetVersion, cuDriverGetVersion);
MPC_SAME(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
MPC_SAME(devicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
MPC_SAME(ctxPushCurrent, cuCtxPushCurrent_v2);
MPC_SAME(ctxPopCurrent, cuCtxPopCurrent_v2);
MPC_SAME(moduleLoadData, cuModuleLoadData);
MPC_SAME(moduleUnload, cuModuleUnload);
MPC_SAME(moduleGetFunction, cuModuleGetFunction);
MPC_SAME(funcSetAttribute, cuFuncSetAttribute);
MPC_SAME(memAlloc, cuMemAlloc_v2);
MPC_SAME(memFree, cuMemFree_v2);
MPC_SAME(memPoolCreate, cuMemPoolCreate);
MPC_SAME(memPoolDestroy, cuMemPoolDestroy);
MPC_SAME(memPoolSetAttribute, cuMemPoolSetAttribute);
MPC_SAME(memAllocFromPoolAsync, cuMemAllocFromPoolAsync);
MPC_SAME(memFreeAsync, cuMemFreeAsync);
MPC_SAME(memHostAlloc, cuMemHostAlloc);
MPC_SAME(memFreeHost, cuMemFreeHost);
MPC_SAME(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
MPC_SAME(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
MPC_SAME(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
MPC_SAME(memsetD8Async, cuMemsetD8Async);
MPC_SAME(streamCreate, cuStreamCreate);
MPC_SAME(streamDestroy, cuStreamDestroy_v2);
MPC_SAME(streamSynchronize, cuStreamSynchronize);
MPC_SAME(streamQuery, cuStreamQuery);
MPC_SAME(streamWaitEvent, cuStreamWaitEvent);
MPC_SAME(streamAddCallback, cuStreamAddCallback);
MPC_SAME(streamIsCapturing, cuStreamIsCapturing);
MPC_SAME(streamBeginCapture, cuStreamBeginCapture_v2);
MPC_SAME(streamEndCapture, cuStreamEndCapture);
MPC_SAME(eventCreate, cuEventCreate);
MPC_SAME(eventDestroy, cuEventDestroy_v2);
MPC_SAME(eventRecord, cuEventRecord);
MPC_SAME(eventRecordWithFlags, cuEventRecordWithFlags);
MPC_SAME(eventQuery, cuEventQuery);
MPC_SAME(eventSynchronize, cuEventSynchronize);
MPC_SAME(eventElapsedTime, cuEventElapsedTime);
MPC_SAME(graphDestroy, cuGraphDestroy);
MPC_SAME(graphInstantiate, cuGraphInstantiateWithFlags);
MPC_SAME(graphExecUpdate, cuGraphExecUpdate_v2);
MPC_SAME(graphExecDestroy, cuGraphExecDestroy);
MPC_SAME(graphLaunch, cuGraphLaunch);
MPC_SAME(launchKernel, cuLaunchKernel);
MPC_SAME(launchKernelEx, cuLaunchKernelEx);
MPC_SAME(launchCooperativeKernel, cuLaunchCooperativeKernel);
MPC_SAME(occupancyMaxActiveBlocks, cuOccupancyMaxActiveBlocksPerMultiprocessor);

TEST(DriverAbi, NumbersAreTheHeaders) {
  EXPECT_EQ(kCuInvalidValue, int(CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(kCuOutOfMemory, int(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(kCuDeviceUnavailable, int(CUDA_ERROR_DEVICE_UNAVAILABLE));
  EXPECT_EQ(kCuNoDevice, int(CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(kCuInvalidDevice, int(CUDA_ERROR_INVALID_DEVICE));
  EXPECT_EQ(kCuInvalidImage, int(CUDA_ERROR_INVALID_IMAGE));
  EXPECT_EQ(kCuNoBinaryForGpu, int(CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(kCuUnsupportedPtx, int(CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
  EXPECT_EQ(kCuNotFound, int(CUDA_ERROR_NOT_FOUND));
  EXPECT_EQ(kCuNotReady, int(CUDA_ERROR_NOT_READY));
  EXPECT_EQ(kCuIllegalAddress, int(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_EQ(kCuLaunchFailed, int(CUDA_ERROR_LAUNCH_FAILED));
  EXPECT_EQ(kCuSystemDriverMismatch, int(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
  EXPECT_EQ(kCuCompatNotSupported,
            int(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE));
  EXPECT_EQ(kCuGraphUpdateFailure, int(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE));
  EXPECT_EQ(kCuUnknown, int(CUDA_ERROR_UNKNOWN));

  EXPECT_EQ(kCuProgrammaticStreamSerialization,
            int(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));

  EXPECT_EQ(kCuMaxThreadsPerBlock,
            int(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EXPECT_EQ(kCuMaxGridX, int(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X));
  EXPECT_EQ(kCuMaxGridY, int(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y));
  EXPECT_EQ(kCuMaxGridZ, int(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z));
  EXPECT_EQ(kCuClockRate, int(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  EXPECT_EQ(kCuMultiprocessorCount,
            int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(kCuMemoryClockRate, int(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
  EXPECT_EQ(kCuMemoryBusWidth,
            int(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  EXPECT_EQ(kCuL2CacheSize, int(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  EXPECT_EQ(kCuComputeCapabilityMajor,
            int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(kCuComputeCapabilityMinor,
            int(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(kCuMaxSharedMemoryOptin,
            int(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  EXPECT_EQ(kCuMemoryPoolsSupported,
            int(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));

  EXPECT_EQ(kCuStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(kCuEventDefault, unsigned(CU_EVENT_DEFAULT));
  EXPECT_EQ(kCuEventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(kCuCaptureThreadLocal, int(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(kCuFunctionMaxDynamicShared,
            int(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  EXPECT_EQ(kCuPoolReleaseThreshold, int(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
}

TEST(DriverAbi, StructsAreTheHeaders) {
  CuPoolProps ours;
  ours.locationId = 3;
  CUmemPoolProps theirs;
  ASSERT_EQ(sizeof(ours), sizeof(theirs));
  std::memcpy(&theirs, &ours, sizeof(theirs));
  EXPECT_EQ(theirs.allocType, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(theirs.handleTypes, CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(theirs.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(theirs.location.id, 3);
  EXPECT_EQ(theirs.win32SecurityAttributes, nullptr);
  EXPECT_EQ(theirs.maxSize, 0u);
  EXPECT_EQ(sizeof(CuGraphUpdateResult), sizeof(CUgraphExecUpdateResultInfo));
  EXPECT_EQ(sizeof(CuLaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(CuLaunchAttribute, value),
            offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof(CuLaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(CuLaunchConfig, sharedBytes),
            offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(CuLaunchConfig, stream),
            offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(CuLaunchConfig, attributes),
            offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(CuLaunchConfig, attributeCount),
            offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(offsetof(CuGraphUpdateResult, errorFromNode),
            offsetof(CUgraphExecUpdateResultInfo, errorFromNode));
}
#else
TEST(DriverAbi, NeedsTheToolkitsHeader) {
  GTEST_SKIP() << "cuda.h was not found when this was built";
}
#endif
