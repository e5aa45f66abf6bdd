//===- Position.h - where a training stands ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_POSITION_H
#define MPC_LIB_TRAINING_POSITION_H

#include "TrainerImpl.h"

namespace mpc::training {

/// Where a training stands and what it has seen: all that a resumed run needs
/// beside the tensors.
struct Position {
  int64_t step = 0;
  /// Epochs that ended, and updates in the one that runs.
  int64_t epoch = 0, stepInEpoch = 0;
  /// Since the last line of news; of the epoch up to there.
  Totals interval, epochTotals;
  /// Since the last full check for divergence, and the steps that had been
  /// skipped then; nothing before the first step.
  Totals watched;
  std::optional<int64_t> skipped;
  std::vector<EpochReport> epochs;
  double bestTestLoss = std::numeric_limits<double>::infinity();
  int64_t epochsWithoutBest = 0;

  Totals epochSoFar() const {
    Totals all = epochTotals;
    all.add(interval);
    return all;
  }
};

/// A position as text, for a checkpoint. The step is not in it.
std::string encodePosition(const Position &position);
/// Reads such a text from anywhere; false where it is none.
bool decodePosition(const std::string &text, int64_t step, Position &position);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_POSITION_H
