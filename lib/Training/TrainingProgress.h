//===- TrainingProgress.h - progress of a training run ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TRAININGPROGRESS_H
#define MPC_LIB_TRAINING_TRAININGPROGRESS_H

#include "TrainerImpl.h"

namespace mpc::training {

/// Progress and accumulated metrics of a training run: the state of a resumed
/// run besides the tensors.
struct TrainingProgress {
  int64_t step = 0;
  /// Completed epochs, and updates in the current one.
  int64_t epoch = 0, stepInEpoch = 0;
  /// Totals since the last report, and of the epoch up to that report.
  Totals interval, epochTotals;
  /// Totals since the last full divergence check, and the number of skipped
  /// steps at that time; nullopt before the first step.
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

/// Serializes a position for a checkpoint, without the step.
std::string encodeTrainingProgress(const TrainingProgress &position);
/// Parses such a text, which is untrusted; returns false if it is invalid.
bool decodeTrainingProgress(const std::string &text, int64_t step,
                            TrainingProgress &position);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_TRAININGPROGRESS_H
