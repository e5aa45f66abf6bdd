//===- KernelTuner.h - schedules by measurement -----------------*- C++ -*-===//
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

/// A kernel and its schedules, which are texts here.
struct TunedKernel {
  std::string name;
  /// The cost model's choice, and the best that was found, which is the same
  /// where none is faster for certain.
  std::string chosen, best;
  /// Least milliseconds of a run with each.
  double chosenMs = 0, bestMs = 0;
  /// Schedules that were measured beside the choice.
  size_t tried = 0;
};

/// What a search asks for.
struct TunerQuestions {
  /// The schedules beside `around` of kernel number `kernel`.
  std::function<std::vector<std::string>(size_t kernel,
                                         const std::string &around)>
      neighbours;
  /// Milliseconds of every kernel where each has the schedule of its number.
  std::function<Result<std::vector<double>>(const std::vector<std::string> &)>
      measure;
  /// Seconds since some moment.
  std::function<double()> clock;
};

/// Climbs from the cost model's choices to faster schedules. All kernels climb
/// at once, since a measurement tells the time of each: a round measures what
/// lies beside each kernel's best, and the next begins at the best of those. It
/// ends where no kernel gets faster or `seconds` behind the first one are over;
/// then choices and finds are measured in turns, and a find that is not faster
/// by `leastGain` (a share) in the least of its times is dropped. `kernels`
/// come with names and choices. Fails where a measurement does.
Status tuneKernels(std::vector<TunedKernel> &kernels,
                   const TunerQuestions &questions, double seconds,
                   double leastGain = 0.02);

} // namespace mpc

#endif // MPC_LIB_JIT_KERNELTUNER_H
