//===- KernelCompiler.h - CUDA C++ to machine code --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles CUDA C++ of programs to machine code for devices. Needs NVRTC, but
// no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_KERNELCOMPILER_H
#define MPC_LIB_RUNTIME_CUDA_KERNELCOMPILER_H

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <string>
#include <vector>

namespace mpc::detail {

struct Nvrtc;

struct KernelCompileOptions {
  /// Compile threads; 0: one per core.
  int threads = 0;
  /// True to cache machine code on disk.
  bool cached = true;
  /// Cache folder; empty: the folder of Environment.h.
  std::string cacheFolder = {};
  /// True to report the compiler's messages with ptxas's register, spill and
  /// shared-memory statistics; recompiles everything.
  bool verbose = false;
  /// Compiler; null: the installed one.
  const Nvrtc *nvrtc = nullptr;
};

/// Statistics of a call.
struct KernelCompileReport {
  /// Number of compiled batches, and of batches found in the cache.
  int compiled = 0, fromCache = 0;
  /// Compiler messages of the compiled batches.
  std::string log;
};

/// Compiles the kernels of `code` to machine code for `architecture`
/// ("sm_90a"), one binary per batch, in order. Reuses machine code for this
/// architecture in `code.binaries`. Batches are deterministic. A failure names
/// the kernel and includes the compiler's messages. Thread-safe and
/// process-safe.
Result<std::vector<CudaCode::Binary>>
compileKernels(const CudaCode &code, const std::string &architecture,
               const KernelCompileOptions &options = {},
               KernelCompileReport *report = nullptr);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_KERNELCOMPILER_H
