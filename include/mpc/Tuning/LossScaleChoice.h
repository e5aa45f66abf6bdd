//===- LossScaleChoice.h - the scale that loses least -----------*- C++ -*-===//
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

/// What f16 loses of the values of a backward pass under a loss scale of
/// 2^power.
struct LossScaleChoice {
  int power = 0;
  /// Shares of the elements that are finite and not zero: f16 flushes them, or
  /// keeps them with fewer bits, under this scale and without one.
  double flushed = 0, subnormal = 0;
  double flushedUnscaled = 0, subnormalUnscaled = 0;
  /// The value that would overflow first, and its largest magnitude without a
  /// scale.
  std::string largest;
  double largestMagnitude = 0;
  /// Values of which f16 flushes more than a hundredth under this scale, the
  /// most first, with the share.
  std::vector<std::pair<std::string, double>> flushing;

  double scale() const;
};

/// The power of two, 1 or more, that loses least of `gradients`, which were
/// recorded without a scale: flushed elements first, then subnormal ones; of
/// several the smallest. The largest magnitude stays a factor of four below
/// overflow, so that other batches have room.
LossScaleChoice chooseLossScale(const RangeRecorder &gradients);

} // namespace mpc

#endif // MPC_TUNING_LOSSSCALECHOICE_H
