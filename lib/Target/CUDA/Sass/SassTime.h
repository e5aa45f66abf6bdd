//===- SassTime.h - how long machine code is likely to take -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An estimate from the machine code, the launch and the machine alone.
//
// How often a loop runs is not in the code. The loops that multiply matrices
// run as often as the launch's operations need, those that store to global
// memory as often as its results need, those that only load as often as its
// operands need, all others once. Code on both sides of a branch counts.
//
// A block takes of each resource what its instructions need. Inside a loop, or
// outside of all, the busiest resource decides; blocks that are resident
// together fill each other's gaps, so that with many of them the busiest
// resource of the whole kernel does. Barriers and a block's begin and end are
// waits that other resident blocks fill as well. The multiprocessor with the
// most blocks is the last one to finish.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SASS_SASSTIME_H
#define MPC_LIB_TARGET_CUDA_SASS_SASSTIME_H

#include "../CudaMachine.h"
#include "SassListing.h"

#include <map>

namespace mpc {

/// What the assembler says of a kernel.
struct AssembledKernel {
  int64_t registers = 0, spillBytes = 0, sharedBytes = 0;

  /// The kernels in the messages of `ptxas -v`, by name.
  static std::map<std::string, AssembledKernel> parse(llvm::StringRef log);
};

/// What a launch asks for.
struct SassLaunch {
  int64_t blocks = 1, threads = 1, dynamicShared = 0;
  /// Operations and bytes that it needs at least.
  int64_t flops = 0, bytes = 0;
  /// Of these the bytes of results, and those of the scratch buffer besides.
  int64_t writtenBytes = 0, scratchBytes = 0;
  /// Elements of the largest result.
  int64_t elements = 0;
};

struct SassEstimate {
  enum Resource { Issue, Tensor, Float, Special, Shared, L2, kResources };

  int64_t residentBlocks = 0;
  /// How often a warp runs the code outside of loops, which is once, and that
  /// of each loop.
  std::vector<double> runs;
  /// Bytes of the whole launch.
  double sharedBytes = 0, l2Bytes = 0;
  /// Instructions of threads outside the main loop, per element of the largest
  /// result.
  double outsidePerElement = 0;
  /// "tensor", "L2", "memory", "waits", ...
  std::string boundBy;
  double seconds = 0, floorSeconds = 0;
};

SassEstimate estimateTime(const SassKernel &kernel,
                          const AssembledKernel &assembled,
                          const SassLaunch &launch, const TargetInfo &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SASS_SASSTIME_H
