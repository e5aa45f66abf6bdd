//===- KernelTuner.h - schedule search by measurement -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_KERNELTUNER_H
#define MPC_LIB_JIT_KERNELTUNER_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace mpc {

/// A kernel and its schedules, as opaque strings.
struct TunedKernel {
  std::string name;
  /// The cost model's schedule, and the best one, equal to it unless another is
  /// significantly faster.
  std::string chosen, best;
  /// Minimum run time with each, in ms.
  double chosenMs = 0, bestMs = 0;
  /// Number of schedules measured besides the cost model's.
  size_t tried = 0;
};

/// Callbacks of the search.
struct TunerCallbacks {
  /// Returns the neighbors of schedule `around` of kernel `kernel`.
  std::function<std::vector<std::string>(size_t kernel,
                                         const std::string &around)>
      neighbours;
  /// Returns the time of every kernel, in ms, with the given schedules, one per
  /// kernel.
  std::function<Result<std::vector<double>>(const std::vector<std::string> &)>
      measure;
  /// Monotonic clock, in seconds.
  std::function<double()> clock;
};

/// Hill climbing from the cost model's schedules. All kernels climb at once,
/// since one measurement times all of them: a round measures the neighbors of
/// each kernel's best, and the next starts from the winners. Stops when no
/// kernel gets faster or `seconds` after the first measurement; then initial
/// and best schedules are measured alternately, and a best that is not faster
/// by `leastGain` (a fraction) in minimum time is dropped. `kernels` are given
/// with names and initial schedules. Fails if a measurement fails.
Status tuneKernels(std::vector<TunedKernel> &kernels,
                   const TunerCallbacks &questions, double seconds,
                   double leastGain = 0.02);

} // namespace mpc

#endif // MPC_LIB_JIT_KERNELTUNER_H
