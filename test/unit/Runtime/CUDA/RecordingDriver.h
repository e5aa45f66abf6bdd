//===- RecordingDriver.h - a CUDA driver without a GPU ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the functions of CudaDriver.h in host memory, records every call,
// fails on request, and reports leaked resources. Work on streams is deferred
// until a call synchronizes with it, so that missing synchronization is
// detected.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGDRIVER_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGDRIVER_H

#include "CUDA/CudaDriver.h"

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mpc::recording {

/// One call of the driver: "cuMemAlloc", "4096 bytes".
struct Call {
  std::string name, detail;
};

/// One kernel that ran.
struct KernelRun {
  std::string kernel;
  std::array<unsigned, 3> blocks;
  unsigned threads, sharedBytes;
  /// Values of the parameters: addresses.
  std::vector<uint64_t> parameters;
  bool inGraph;
};

/// Body of a kernel; its parameters are addresses in host memory.
using KernelBody = std::function<void(const std::vector<void *> &parameters)>;

/// Properties and injected failures of the machine.
struct Machine {
  int gpus = 1;
  int version = 13000;
  int major = 9, minor = 0;
  bool memoryPools = true;
  /// Bytes that can be allocated in all.
  size_t memoryBytes = size_t(1) << 30;
  /// By name, "*" for all others. A kernel without a body does nothing.
  std::map<std::string, KernelBody> kernels;
  /// Kernels that end the context with this error when they run.
  std::map<std::string, int> failingKernels;
  /// Functions of the driver that fail each time, with the error.
  std::map<std::string, int> failingCalls;
  /// The call with this number, counted from 0, fails with `failure`; -1: none.
  long failAt = -1;
  int failure = detail::kCuOutOfMemory;
  /// Whether a graph can be rewritten.
  bool graphUpdates = true;
};

/// Restarts the driver on `machine` and resets all state.
void restart(const Machine &machine = {});
/// The machine, for changes; not while another thread is in the driver.
Machine &machine();

/// The driver's functions.
detail::CudaDriver driver();
/// The function of that name, or null: the result of cuGetProcAddress.
void *entryPoint(const std::string &name);

/// Calls since the start or since forgetCalls().
std::vector<Call> calls();
long count(const std::string &name);
void forgetCalls();
/// Called with every call as it is recorded.
void onCall(std::function<void(const Call &)> observer);

/// Enqueues what a library of the GPU's does, a call "work" of that name.
void enqueueWork(void *stream, const std::string &name,
                 std::function<void()> work);

/// Lets the GPU do all that was enqueued.
void finishWork();
/// Kernels that ran, in order.
std::vector<KernelRun> kernelRuns();
/// Live objects, after finishWork(): "stream", "memory of 256 bytes", ...
std::vector<std::string> alive();
/// Peak size of the pools in bytes, if freed memory is only reused on the same
/// stream: the worst case of a driver.
size_t poolBytes();
/// Invalid uses of the driver: "cuMemAlloc without a context".
std::vector<std::string> complaints();
/// Frees the driver's own memory; nothing may be called afterwards.
void release();
/// Contexts that this thread has pushed and not popped.
size_t contextDepth();

/// Machine code with the given kernels and their numbers of parameters. The
/// driver accepts NVRTC's output as well.
std::vector<std::byte>
machineCode(const std::map<std::string, int> &parametersOfKernels);

} // namespace mpc::recording

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGDRIVER_H
