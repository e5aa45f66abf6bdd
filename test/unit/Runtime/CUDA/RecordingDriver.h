//===- RecordingDriver.h - a CUDA driver without a GPU ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the functions of CudaDriver.h in host memory, records every call,
// fails where it is told to, and knows what was not given back. Work on streams
// is done late, when somebody waits for it, so that code that forgets to wait
// is seen to.
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

/// What a kernel does: its parameters are addresses in host memory.
using KernelBody = std::function<void(const std::vector<void *> &parameters)>;

/// What the machine is and what goes wrong on it.
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

/// Begins again on `machine`; everything of before is forgotten.
void restart(const Machine &machine = {});
/// The machine, for changes; not while another thread is in the driver.
Machine &machine();

/// The driver's functions.
detail::CudaDriver driver();
/// The function of that name, or null: what cuGetProcAddress gives.
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
/// What exists, after finishWork(): "stream", "memory of 256 bytes", ...
std::vector<std::string> alive();
/// Bytes that the pools had to grow to, where memory goes from a stream to
/// itself and to no other: what a driver may do at worst.
size_t poolBytes();
/// What was done that no driver allows: "cuMemAlloc without a context".
std::vector<std::string> complaints();
/// Gives the driver's own memory back; nothing may be called afterwards.
void release();
/// Contexts that this thread has pushed and not popped.
size_t contextDepth();

/// Machine code that holds kernels, each with so many parameters. What NVRTC
/// makes is accepted as well.
std::vector<std::byte>
machineCode(const std::map<std::string, int> &parametersOfKernels);

} // namespace mpc::recording

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_RECORDINGDRIVER_H
