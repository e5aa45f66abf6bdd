//===- SassTimeEstimate.h - run time estimate from SASS ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Static estimate from machine code, launch configuration and machine model.
//
// Trip counts are inferred: loops with matrix multiplications from the launch's
// operations, loops that store to global memory from the result size, loops
// that only load from the operand size; all others run once. Both branches of
// an if-else count.
//
// Per loop, and outside of loops, the bottleneck resource determines the time
// of a block. Co-resident blocks overlap, so that with many of them the
// kernel's bottleneck resource determines it. Stalls at barriers and at a
// block's start and end overlap with other resident blocks as well. The most
// loaded multiprocessor finishes last.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SASS_SASSTIMEESTIMATE_H
#define MPC_LIB_TARGET_CUDA_SASS_SASSTIMEESTIMATE_H

#include "../MultiprocessorModel.h"
#include "SassListing.h"

#include <map>

namespace mpc::cuda {

/// Resource usage of a kernel as reported by ptxas.
struct AssembledKernel {
  int64_t registers = 0, spillBytes = 0, sharedBytes = 0;

  /// Parses the output of `ptxas -v`, by kernel name.
  static std::map<std::string, AssembledKernel> parse(llvm::StringRef log);
};

/// Launch configuration and work of a launch.
struct SassLaunch {
  int64_t blocks = 1, threads = 1, dynamicShared = 0;
  /// Minimum operations and bytes.
  int64_t flops = 0, bytes = 0;
  /// Bytes of results within `bytes`, and additional bytes of scratch.
  int64_t writtenBytes = 0, scratchBytes = 0;
  /// Elements of the largest result.
  int64_t elements = 0;
};

struct SassEstimate {
  enum Resource { Issue, Tensor, Float, Special, Shared, L2, kResources };

  int64_t residentBlocks = 0;
  /// Runs per warp of the code outside of loops (once) and of each loop.
  std::vector<double> runs;
  /// Bytes of the whole launch.
  double sharedBytes = 0, l2Bytes = 0;
  /// Thread instructions outside the main loop, per element of the largest
  /// result.
  double outsidePerElement = 0;
  /// Bottleneck: "tensor", "L2", "memory", "waits", ...
  std::string boundBy;
  double seconds = 0, floorSeconds = 0;
};

SassEstimate estimateTime(const SassKernel &kernel,
                          const AssembledKernel &assembled,
                          const SassLaunch &launch, const TargetInfo &target);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SASS_SASSTIMEESTIMATE_H
