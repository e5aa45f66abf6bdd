//===- Train.h - mpc train --------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TRAIN_H
#define MPC_TOOLS_MPC_TRAIN_H

#include "Options.h"

#include "mpc/Training/Trainer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

/// The flags that say what a training step is made of.
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
  std::vector<std::string> inputs;
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
  /// Folder of event files; empty writes none.
  std::string tensorboard;
  /// The page to write; empty writes none.
  std::string html;
  /// Seconds that a rank waits for the others in a message.
  double rankTimeout = 120;
  /// "DESCRIPTOR,RANK,RANKS": who does this rank's messages; empty: MPI, where
  /// a launcher started ranks.
  std::string relay;
  /// File of the trace of a step; empty writes none.
  std::string trace;
};

/// Adds the flags that say what a training step is made of.
void addTrainingFlags(CLI::App &command, TrainingFlags &flags);
/// Adds every flag of `mpc train`.
void addTrainFlags(CLI::App &command, TrainArguments &arguments);

/// The training that the flags ask for. A schedule that ends with the training
/// has steps = 0 where the flags do not say how many.
Result<TrainingOptions> makeTrainingOptions(const TrainingFlags &flags);

int trainCommand(const TrainArguments &arguments);

/// The ranks that train together; null where this one trains alone.
Result<std::shared_ptr<Communicator>>
joinRanks(const TrainArguments &arguments);
/// The device of a rank: of GPUs, where none is named, one of its own.
Result<Device> makeRankDevice(const CommonOptions &common,
                              const std::shared_ptr<Communicator> &group);
/// Whether all ranks know of the failure, and end by themselves; whether
/// another one tells it.
bool isKnown(const Status &failure);
bool isTold(const Status &failure);
/// Driver::refuse() of `mpc train`.
std::optional<int> refuseTraining(const std::vector<std::string> &words,
                                  const Status &why);

/// What a terminal shows while a training runs: one line that is written over,
/// with a bar, numbers and the time left. Writes nothing where stderr is no
/// terminal.
class ProgressLine {
public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine() { clear(); }
  bool shown() const { return enabled; }
  void show(const FitProgress &progress);
  /// Removes the line, so that other text can come.
  void clear();

private:
  bool enabled;
  bool visible = false;
};

/// "epoch 1/3, step 200/1404, loss 0.512, ...": a line of news.
std::string describeProgress(const FitProgress &progress);

/// A curve as text: `rows` lines of `columns` characters with an axis at the
/// left, the points averaged where there are more than columns.
std::string plotCurve(const std::string &title,
                      const std::vector<double> &points, int columns = 60,
                      int rows = 10);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TRAIN_H
