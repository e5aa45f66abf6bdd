//===- KernelCompiler.h - CUDA C++ to machine code --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between programs that hold the text of kernels and devices that load
// machine code. Needs NVRTC, not a GPU.
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
  /// Threads that compile; 0: one per core.
  int threads = 0;
  /// Whether machine code is kept on disk between processes.
  bool cached = true;
  /// Where it is kept; empty: the folder of Environment.h.
  std::string cacheFolder = {};
  /// Whether the report holds the compiler's messages and what the assembler
  /// says of registers, spills and shared memory; compiles everything anew.
  bool verbose = false;
  /// The compiler; null: the one that is installed.
  const Nvrtc *nvrtc = nullptr;
};

/// What a call did.
struct KernelCompileReport {
  /// Programs handed to the compiler, and those that the cache had.
  int compiled = 0, fromCache = 0;
  /// The compiler's messages about those that it compiled.
  std::string log;
};

/// The kernels of `code` as machine code for `architecture` ("sm_90a"), one
/// binary for every few kernels, in their order. What `code.binaries` has for
/// this architecture is taken from there. Equal input is compiled in equal
/// portions. A failure names the kernel and holds the compiler's messages. May
/// be called from several threads and processes at once.
Result<std::vector<CudaCode::Binary>>
compileKernels(const CudaCode &code, const std::string &architecture,
               const KernelCompileOptions &options = {},
               KernelCompileReport *report = nullptr);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_KERNELCOMPILER_H
