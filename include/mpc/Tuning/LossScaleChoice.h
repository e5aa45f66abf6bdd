//===- LossScaleChoice.h - choice of a loss scale ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TUNING_LOSSSCALECHOICE_H
#define MPC_TUNING_LOSSSCALECHOICE_H

#include "mpc/Analysis/RangeRecorder.h"

#include <string>
#include <vector>

namespace mpc {

/// Losses of f16 on the values of a backward pass under a loss scale of
/// 2^power.
struct LossScaleChoice {
  int power = 0;
  /// Shares of the finite nonzero elements that f16 flushes, or stores with
  /// fewer bits, under this scale and without one.
  double flushed = 0, subnormal = 0;
  double flushedUnscaled = 0, subnormalUnscaled = 0;
  /// The value that would overflow first, and its unscaled magnitude.
  std::string largest;
  double largestMagnitude = 0;
  /// Values of which f16 flushes more than a hundredth under this scale, with
  /// the share, largest first.
  std::vector<std::pair<std::string, double>> flushing;

  double scale() const;
};

/// Returns the power of two, 1 or more, that minimizes the losses of
/// `gradients`, recorded without a scale: first flushed elements, then
/// subnormal ones; the smallest of several. The largest magnitude stays a
/// factor of four below overflow as headroom for other batches.
LossScaleChoice chooseLossScale(const RangeRecorder &gradients);

} // namespace mpc

#endif // MPC_TUNING_LOSSSCALECHOICE_H
