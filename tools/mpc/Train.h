//===- Train.h - mpc train --------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TRAIN_H
#define MPC_TOOLS_MPC_TRAIN_H

#include "Options.h"
#include "ProgressLine.h"

#include "mpc/Training/Trainer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

/// Flags that define a training step.
struct TrainingFlags {
  /// KIND[,field=value...].
  std::string loss = "softmax_cross_entropy";
  std::string optimizer = "adam";
  std::string schedule = "constant";
  double rate = 1e-3;
  std::optional<double> weightDecay, clipNorm, clipValue;
  int64_t accumulate = 1;
  bool syncBatchNorm = false;
  std::string shard = "none";
  std::string lossScale;
  std::string init = "file";
  std::vector<std::string> dropout, freeze, trainable, parameters;
};

struct TrainArguments {
  CommonOptions common;
  TrainingFlags step;
  std::string data;
  std::string normalize = "unit";
  int64_t epochs = 1;
  std::optional<int64_t> steps;
  bool inOrder = false;
  int64_t patience = 0;
  int64_t logEvery = 100;
  std::string checkpoint;
  int64_t checkpointEvery = 0;
  bool resume = false;
  std::string exported;
  /// Folder of event files; empty: none.
  std::string tensorboard;
  /// HTML file to write; empty: none.
  std::string html;
  /// Timeout of communication in seconds.
  double rankTimeout = 120;
  /// "DESCRIPTOR,RANK,RANKS": relay process for communication; empty: MPI, if a
  /// launcher started ranks.
  std::string relay;
  /// File for the trace of a step; empty: none.
  std::string trace;
};

/// Adds the flags that define a training step.
void addTrainingFlags(CLI::App &command, TrainingFlags &flags);
/// Adds all flags of `mpc train`.
void addTrainFlags(CLI::App &command, TrainArguments &arguments);

/// Returns the training options of the flags. A schedule that ends with
/// training has steps = 0 unless the flags specify it.
Result<TrainingOptions> makeTrainingOptions(const TrainingFlags &flags);

int trainCommand(const TrainArguments &arguments);

/// Joins the data-parallel group; null for a single rank.
Result<std::shared_ptr<Communicator>>
joinRanks(const TrainArguments &arguments);
/// Creates the device of a rank: by default its own GPU, if GPUs are used.
Result<Device> makeRankDevice(const CommonOptions &common,
                              const std::shared_ptr<Communicator> &group);
/// Return true if all ranks know of the failure, and end by themselves; if
/// another rank reports it.
bool isKnown(const Status &failure);
bool isTold(const Status &failure);
/// Driver::refuse() of `mpc train`.
std::optional<int> refuseTraining(const std::vector<std::string> &words,
                                  const Status &why);

/// Formats a progress report: "epoch 1/3", "step 200/1404", "loss 0.512", ....
std::vector<ProgressPart> describeProgress(const FitProgress &progress);

/// Plots a curve as text: `rows` lines of `columns` characters with an axis at
/// the left; points are averaged if there are more than columns. Empty for
/// fewer than four points.
std::string plotCurve(const std::string &title,
                      const std::vector<double> &points, int columns = 60,
                      int rows = 10);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TRAIN_H
