//===- Trainer.h - training a model -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the steps of a model's training, keeps what they read and write from
// step to step, and runs them: one by one for a loop of the host's own, or all
// by fit(). Includes nothing of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_TRAINER_H
#define MPC_TRAINING_TRAINER_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/Device.h"
#include "mpc/Runtime/Executable.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Stream.h"
#include "mpc/Training/Checkpoint.h"
#include "mpc/Training/Dataset.h"
#include "mpc/Training/WeightChoice.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Sums over some batches.
struct TrainingMetrics {
  int64_t batches = 0;
  /// Mean of the batches' losses; NaN without one.
  double loss = 0;
  /// Share of examples whose largest output is at their label; absent where
  /// labels are no classes.
  std::optional<double> accuracy;
};

/// The loss scale as the device has it.
struct LossScaleReport {
  /// The factor on losses and gradients; 1 where training is not scaled.
  double scale = 1;
  int64_t skippedSteps = 0;
  /// Of the last skipped step: the first gradient that was not finite, with the
  /// op that made it, and how many gradients were not. Empty and 0 before the
  /// first.
  std::string overflowed;
  int64_t overflowedTensors = 0;
};

/// Whether gradients carry the loss scale.
enum class GradientForm {
  /// As the update reads them: multiplied by the loss scale, in the type that
  /// the policy gives them.
  Scaled,
  /// Of the loss itself, in float32.
  Unscaled,
};

/// Under whose names the state of a loss scale is read.
enum class LossScaleNames {
  /// `scale`, `growth_factor`, `backoff_factor`, `growth_interval`,
  /// `_growth_tracker`: what torch.amp.GradScaler.state_dict() holds.
  Torch,
  /// `dynamic_scale`, `step_counter`: variables of Keras 3's
  /// LossScaleOptimizer.
  Keras3,
  /// `current_loss_scale`, `good_steps`: variables of tf_keras'
  /// LossScaleOptimizer.
  TfKeras,
};

/// One number of a loss scale's state.
struct NamedNumber {
  std::string name;
  double value = 0;
};

/// One line of news from fit().
struct FitProgress {
  /// Updates so far, and in all.
  int64_t step = 0, steps = 0;
  /// The epoch that runs, from 1, and of how many.
  int64_t epoch = 0, epochs = 0;
  /// Since the last line.
  TrainingMetrics train;
  LossScaleReport lossScale;
  double samplesPerSecond = 0;
  double secondsLeft = 0;
  /// Whether the line ends an interval of FitOptions::logEvery or an epoch;
  /// others come more often, for a display.
  bool logged = true;
};

/// What an epoch gave.
struct EpochReport {
  int64_t epoch = 0;
  TrainingMetrics train;
  /// Absent without test data.
  std::optional<TrainingMetrics> test;
};

struct FitOptions {
  /// Passes over the data; of each the examples that fill no batch are left
  /// out.
  int64_t epochs = 1;
  /// Set: ends after that many updates, counted from the very first.
  std::optional<int64_t> steps;
  /// Whether each epoch has an order of its own (epochOrder()), and its seed.
  bool shuffle = true;
  uint64_t seed = 0;
  /// Of inputs; absent takes Dataset::unitRange() of the training data.
  std::optional<Normalization> normalization;
  /// Judged after each epoch; null for none. Must live as long as the call.
  const Dataset *test = nullptr;
  /// Ends after so many epochs without a lower test loss; 0 never does.
  int64_t patience = 0;
  /// Updates between two lines of news.
  int64_t logEvery = 100;
  /// Seconds between further news, for a display; 0 for none. On a GPU each
  /// costs a wait.
  double displayEvery = 0;
  /// Folder of checkpoints; empty writes none. One is written after each epoch,
  /// every `checkpointEvery` updates (0 for none in between), and at the end.
  std::string checkpoints;
  int64_t checkpointEvery = 0;
  /// Continue from the newest intact checkpoint of the folder. What follows is
  /// bit for bit what would have followed there.
  bool resume = false;
  /// Set: the update whose trace the report has, counted from the first of this
  /// call; of several ranks that train a whole step at once.
  std::optional<int64_t> traceStep;
  /// Called on the calling thread.
  std::function<void(const FitProgress &)> onProgress;
  std::function<void(const EpochReport &)> onEpoch;
  std::function<void(const std::string &)> onNote;
  /// Asked after each update; true ends the call behind a last checkpoint.
  std::function<bool()> shouldStop;
};

struct FitReport {
  /// Updates from the very first.
  int64_t steps = 0;
  /// All epochs that ended, those before a resume included.
  std::vector<EpochReport> epochs;
  /// Of the last epoch, ended or not.
  TrainingMetrics train;
  /// At the end; absent without test data.
  std::optional<TrainingMetrics> test;
  LossScaleReport lossScale;
  /// Of this call.
  double seconds = 0;
  int64_t samples = 0;
  /// A parameter or state was not finite, no loss of 100 updates was, or the
  /// loss scale fell through a floor that its preset calls an error; training
  /// stopped there. Looked for every 100 updates, at the ends of epochs, and
  /// where state is kept, whatever is reported meanwhile. Nothing that is not
  /// finite is written to a checkpoint.
  bool diverged = false;
  /// The test loss had stopped falling.
  bool stoppedEarly = false;
  /// Of Trainer::program(), where FitOptions::traceStep asked for it.
  RunTrace trace;
  /// The last checkpoint's file.
  std::string checkpoint;
};

/// A model in training on one device. Calls are the caller's to order; a
/// trainer may pass between threads. It owns parameters and state, on the
/// device. On a GPU a step is enqueued and nothing waits, but where a number is
/// asked for.
class Trainer {
public:
  /// Compiles the step of `model` (ONNX, mpc's own dialect or StableHLO) for
  /// `device`; it is read anew for every part that is compiled.
  /// `options.training` must be set; its `part` is not read. `options.batch`
  /// says how many examples a step takes; without it the model's own number.
  /// `seed` is dropout's. Takes tens of milliseconds to seconds; what else is
  /// compiled, is when it is first needed. Fails as Engine::compile() does.
  ///
  /// With a communicator of several ranks, each of which makes the same calls,
  /// gradients are added up over all of them; `options.batch`, which must be
  /// set, is the batch of all together, of which each takes an equal part, and
  /// each draws its own dropout. Fails on every rank where they would not train
  /// the same. With DistributionOptions::shard calls that ask for state or
  /// weights, or judge, exchange messages too.
  static Result<Trainer>
  create(const Device &device, const ModelSource &model,
         const CompileOptions &options, uint64_t seed = 0,
         std::shared_ptr<Communicator> communicator = nullptr);
  Trainer(Trainer &&) noexcept;
  Trainer &operator=(Trainer &&) noexcept;
  ~Trainer();

  /// Whether a step of these options is one program (TrainingPart::Step), run
  /// for every batch. Else it is a forward and backward pass for each batch of
  /// a window, and an update behind the last.
  static bool isOneProgram(const TrainingOptions &training);

  /// What a batch consists of: the inputs in order, then the labels.
  std::span<const ProgramValue> batchTypes() const;
  /// Examples in a batch, of several ranks in this rank's part.
  int64_t batch() const;

  /// What is done with each tensor that the model stores and with each input
  /// that is a parameter, in the order of the model. Lives as long as the
  /// trainer.
  std::span<const WeightChoice> weightChoices() const;

  /// A batcher that makes batches for step() from `data`.
  Result<Batcher> batcher(const Dataset &data,
                          const Normalization &normalization) const;

  /// Runs forward and backward on a batch (buffers of batchTypes(), in host
  /// memory or on the device, where the step copies them) and updates the
  /// parameters; under accumulation only with the last batch of each window. A
  /// buffer on the device must stay as it is until stream() has passed.
  Status step(std::span<const Buffer> batch);

  /// On what steps are enqueued; null where they run in host memory. A host
  /// whose batches lie on the device lets it wait for what makes them.
  const Stream *stream() const;

  /// The first half of a step: loss, outputs and gradients, which stay on the
  /// device.
  Status forwardBackward(std::span<const Buffer> batch);
  /// The second half: check, clip, update and the new loss scale.
  Status apply();
  /// The gradients that forwardBackward() gave and apply() has not read yet,
  /// under accumulation summed over the window, and of several ranks this one's
  /// terms of the sum over ranks. Named "PARAMETER.gradient", in
  /// host memory. Unscaled ones are divided by the scale in float64 and rounded
  /// once; what overflowed stays infinite or NaN. Waits for the device.
  Result<std::vector<NamedTensor>>
  gradients(GradientForm form = GradientForm::Scaled) const;
  /// Replaces gradients between forwardBackward() and apply(): those that are
  /// named, the others stay. Their check, clipping and update are those of any
  /// other gradient. Unscaled ones are multiplied by the scale and rounded to
  /// the gradient's type. Fails, and changes nothing, where a name or type is
  /// wrong or there are no gradients to replace.
  Status setGradients(std::span<const NamedTensor> gradients,
                      GradientForm form = GradientForm::Scaled);

  /// Loss and accuracy since the last call, of this rank's examples. Waits for
  /// the device.
  Result<TrainingMetrics> takeMetrics();
  Result<LossScaleReport> lossScale() const;

  /// The state of a dynamic loss scale under another system's names; empty
  /// where the scale is none or constant. Waits for the device.
  Result<std::vector<NamedNumber>> lossScaleState(LossScaleNames names) const;
  /// Sets numbers of that state, under the names of any of the systems; what is
  /// not named stays. Factors and intervals are part of the compiled step: they
  /// may be given, but must be those of the preset. Fails, and changes nothing,
  /// where a name is unknown, a number is out of range or the scale is not
  /// dynamic.
  Status setLossScaleState(std::span<const NamedNumber> numbers);

  /// Loss and accuracy over `data` with dropout off and running statistics.
  /// Compiles on its first call, and once more where the last batch is smaller;
  /// a model in mpc's own text, whose batch is fixed, leaves that one out.
  /// A model that computes its gradients itself (TrainingOptions::gradients) is
  /// no forward model: `models` has one for each number of examples, with the
  /// parameters, statistics, inputs and the judged output under their names.
  Result<TrainingMetrics>
  evaluate(const Dataset &data, const Normalization &normalization,
           const std::map<int64_t, ModelSource> &models = {});

  /// Trains on `data` as the options say. Of several ranks each has all of the
  /// data and takes its part of every batch; what is told is of all, rank 0
  /// writes checkpoints, and every rank finds them in the same folder.
  Result<FitReport> fit(const Dataset &data, const FitOptions &options);

  /// Copies, in host memory, of everything that steps keep but 16-bit copies of
  /// parameters: parameters, statistics, optimizer and loss-scale state.
  Result<std::vector<NamedTensor>> state() const;
  /// The parameters and statistics alone: what the trained model is.
  Result<std::vector<NamedTensor>> weights() const;
  /// Replaces all of state(): names and types must be the same. 16-bit copies
  /// follow.
  Status setState(std::span<const NamedTensor> tensors);

  /// Writes the model, which must be ONNX, with the present weights; of several
  /// ranks all call and rank 0 writes.
  Status exportOnnx(const std::string &path) const;
  /// Whether exportOnnx() would find what it needs; writes nothing.
  Status checkExport(const std::string &path) const;

  /// The types of a layer and of those inside of it, gradients included
  /// (findLayer()).
  Result<LayerTypes> layer(const std::string &path) const {
    return findLayer(program().layers, path);
  }

  /// The compiled step; without one (accumulation) the forward and backward
  /// part.
  const Program &program() const;

  /// Internal.
  struct Impl;

private:
  explicit Trainer(std::unique_ptr<Impl> impl);
  Result<std::string> encodeOnnx(const std::string &path) const;

  std::unique_ptr<Impl> impl;
};

} // namespace mpc

#endif // MPC_TRAINING_TRAINER_H
