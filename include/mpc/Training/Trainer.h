//===- Trainer.h - training loop and steps ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the training steps of a model, holds their state, and runs them:
// individually for a host's own loop, or all with fit(). Uses no LLVM or MLIR
// header.
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

/// Metrics accumulated over batches.
struct TrainingMetrics {
  int64_t batches = 0;
  /// Mean of the batches' losses; NaN if there are none.
  double loss = 0;
  /// Fraction of examples whose largest output is at their label; absent unless
  /// labels are classes.
  std::optional<double> accuracy;
};

/// State of the loss scale on the device.
struct LossScaleReport {
  /// Factor on losses and gradients; 1 without loss scaling.
  double scale = 1;
  int64_t skippedSteps = 0;
  /// For the last skipped step: the first non-finite gradient with the op that
  /// computed it, and the number of non-finite gradients. Empty and 0 before
  /// the first.
  std::string overflowed;
  int64_t overflowedTensors = 0;
};

/// Scaling of gradients passed to and from the host.
enum class GradientForm {
  /// As the update reads them: multiplied by the loss scale, in the type that
  /// the policy assigns.
  Scaled,
  /// Gradients of the unscaled loss, in float32.
  Unscaled,
};

/// Naming scheme of a loss scale's state.
enum class LossScaleNames {
  /// `scale`, `growth_factor`, `backoff_factor`, `growth_interval`,
  /// `_growth_tracker`: as in torch.amp.GradScaler.state_dict().
  Torch,
  /// `dynamic_scale`, `step_counter`: variables of Keras 3's
  /// LossScaleOptimizer.
  Keras3,
  /// `current_loss_scale`, `good_steps`: variables of tf_keras'
  /// LossScaleOptimizer.
  TfKeras,
};

/// A named number of a loss scale's state.
struct NamedNumber {
  std::string name;
  double value = 0;
};

/// Progress report of fit().
struct FitProgress {
  /// Number of updates so far, and in total.
  int64_t step = 0, steps = 0;
  /// Current epoch, from 1, and number of epochs.
  int64_t epoch = 0, epochs = 0;
  /// Metrics since the last report.
  TrainingMetrics train;
  LossScaleReport lossScale;
  double samplesPerSecond = 0;
  double secondsLeft = 0;
  /// True at the end of an interval of FitOptions::logEvery or of an epoch;
  /// false for additional reports for a progress display.
  bool logged = true;
};

/// Results of an epoch.
struct EpochReport {
  int64_t epoch = 0;
  TrainingMetrics train;
  /// Absent without test data.
  std::optional<TrainingMetrics> test;
};

struct FitOptions {
  /// Number of passes over the data; incomplete last batches are dropped.
  int64_t epochs = 1;
  /// If set, maximum number of updates, counted from the first run.
  std::optional<int64_t> steps;
  /// True to shuffle each epoch (epochOrder()), and the seed.
  bool shuffle = true;
  uint64_t seed = 0;
  /// Normalization of inputs; absent: Dataset::unitRange() of the training
  /// data.
  std::optional<Normalization> normalization;
  /// Test data, evaluated after each epoch; null for none. Must outlive the
  /// call.
  const Dataset *test = nullptr;
  /// Early stopping: number of epochs without a lower test loss; 0: never.
  int64_t patience = 0;
  /// Number of updates between progress reports.
  int64_t logEvery = 100;
  /// Seconds between additional reports for a display; 0 for none. On a GPU
  /// each one synchronizes.
  double displayEvery = 0;
  /// Checkpoint folder; empty: none. Checkpoints are written after each epoch,
  /// every `checkpointEvery` updates (0: not in between), and at the end.
  std::string checkpoints;
  int64_t checkpointEvery = 0;
  /// True to resume from the newest intact checkpoint of the folder, bit for
  /// bit as if uninterrupted.
  bool resume = false;
  /// If set, update to trace for the report, counted from the first of this
  /// call; supported for several ranks that train a whole step at once.
  std::optional<int64_t> traceStep;
  /// Callbacks, called on the calling thread.
  std::function<void(const FitProgress &)> onProgress;
  std::function<void(const EpochReport &)> onEpoch;
  std::function<void(const std::string &)> onNote;
  /// Cancellation callback, polled after each update; true ends the call after
  /// a last checkpoint.
  std::function<bool()> shouldStop;
};

struct FitReport {
  /// Number of updates since the first run.
  int64_t steps = 0;
  /// All completed epochs, including those before a resume.
  std::vector<EpochReport> epochs;
  /// Metrics of the last epoch, complete or not.
  TrainingMetrics train;
  /// Final test metrics; absent without test data.
  std::optional<TrainingMetrics> test;
  LossScaleReport lossScale;
  /// Duration of this call, in seconds, and number of examples.
  double seconds = 0;
  int64_t samples = 0;
  /// True if training diverged and was stopped: a parameter or state was
  /// non-finite, no loss of 100 updates was finite, or the loss scale fell
  /// below a floor that its preset defines as an error. Checked every 100
  /// updates, at the ends of epochs and before checkpoints, independently of
  /// reports. Non-finite values are never written to a checkpoint.
  bool diverged = false;
  /// True if early stopping ended training.
  bool stoppedEarly = false;
  /// Trace of Trainer::program(), if FitOptions::traceStep is set.
  RunTrace trace;
  /// Path of the last checkpoint.
  std::string checkpoint;
};

/// A model in training on one device, with its parameters and state. Not
/// thread-safe, but may pass between threads. On a GPU steps are asynchronous;
/// only reading values synchronizes.
class Trainer {
public:
  /// Compiles the training step of `model` (ONNX, mpc dialect or StableHLO) for
  /// `device`; the model is read again for every compiled part.
  /// `options.training` must be set; its `part` is ignored. `options.batch` is
  /// the batch size, by default the model's own. `seed` is for dropout. Takes
  /// tens of milliseconds to seconds; other parts are compiled on demand. Fails
  /// as Engine::compile() does.
  ///
  /// Data parallelism: with a communicator of several ranks, each of which
  /// makes the same calls, gradients are all-reduced; `options.batch`, which
  /// must be set, is the global batch size, of which each rank processes an
  /// equal part, with independent dropout. Fails on every rank if they would
  /// train different steps. With DistributionOptions::shard, calls that read
  /// state or weights, or evaluate, are collective too.
  static Result<Trainer>
  create(const Device &device, const ModelSource &model,
         const CompileOptions &options, uint64_t seed = 0,
         std::shared_ptr<Communicator> communicator = nullptr);
  Trainer(Trainer &&) noexcept;
  Trainer &operator=(Trainer &&) noexcept;
  ~Trainer();

  /// Returns true if a step is one program (TrainingPart::Step), run per batch.
  /// Otherwise it is a forward and backward pass per batch of a window, and an
  /// update after the last.
  static bool isOneProgram(const TrainingOptions &training);

  /// Types of a batch: the inputs in order, then the labels.
  std::span<const ProgramValue> batchTypes() const;
  /// Batch size of this rank.
  int64_t batch() const;

  /// Use of each tensor that the model stores and of each input that is a
  /// parameter, in model order. Lives as long as the trainer.
  std::span<const WeightChoice> weightChoices() const;

  /// Creates a batcher for step() from `data`.
  Result<Batcher> batcher(const Dataset &data,
                          const Normalization &normalization) const;

  /// Runs forward and backward on a batch (buffers of batchTypes(), in host or
  /// device memory, copied by the step) and updates the parameters; with
  /// gradient accumulation only for the last batch of each window. A device
  /// buffer must not change until stream() has passed.
  ///
  /// A batch of another size (the last of an epoch) compiles another step of
  /// the same state, if there is one rank and the model's batch is not fixed;
  /// `models` has the models for other sizes of a model that computes its own
  /// gradients.
  Status step(std::span<const Buffer> batch,
              const std::map<int64_t, ModelSource> &models = {});

  /// Stream of the steps; null if they run in host memory. A host with batches
  /// in device memory makes it wait for their producers.
  const Stream *stream() const;

  /// First half of a step: computes loss, outputs and gradients, which stay on
  /// the device.
  Status forwardBackward(std::span<const Buffer> batch,
                         const std::map<int64_t, ModelSource> &models = {});
  /// Second half of a step: check, clipping, update and the new loss scale.
  Status apply();
  /// Returns the gradients of forwardBackward() before apply(), with
  /// accumulation summed over the window, and before the all-reduce over ranks.
  /// Named "PARAMETER.gradient", in host memory. Unscaled ones are divided by
  /// the scale in float64 and rounded once; overflows stay infinite or NaN.
  /// Synchronizes with the device.
  Result<std::vector<NamedTensor>>
  gradients(GradientForm form = GradientForm::Scaled) const;
  /// Replaces the named gradients between forwardBackward() and apply(). They
  /// are checked, clipped and applied like any others. Unscaled ones are
  /// multiplied by the scale and rounded to the gradient's type. Fails, without
  /// changes, if a name or type is wrong or there are no gradients.
  Status setGradients(std::span<const NamedTensor> gradients,
                      GradientForm form = GradientForm::Scaled);

  /// Returns and resets loss and accuracy of this rank's examples. Synchronizes
  /// with the device.
  Result<TrainingMetrics> takeMetrics();
  Result<LossScaleReport> lossScale() const;

  /// Returns the state of a dynamic loss scale under another system's names;
  /// empty if the scale is absent or constant. Synchronizes with the device.
  Result<std::vector<NamedNumber>> lossScaleState(LossScaleNames names) const;
  /// Sets the named numbers of that state, under the names of any of the
  /// systems. Factors and intervals are compiled into the step: they may be
  /// given, but must equal the preset's. Fails, without changes, if a name is
  /// unknown, a number is out of range or the scale is not dynamic.
  Status setLossScaleState(std::span<const NamedNumber> numbers);

  /// Returns loss and accuracy over `data` without dropout and with running
  /// statistics. Compiles on the first call, and again for a smaller last
  /// batch, which is dropped for a model in mpc text with its fixed batch. A
  /// model that computes its own gradients (TrainingOptions::gradients) is not
  /// a forward model: `models` contains one per batch size, with the same names
  /// of parameters, statistics, inputs and the compared output.
  Result<TrainingMetrics>
  evaluate(const Dataset &data, const Normalization &normalization,
           const std::map<int64_t, ModelSource> &models = {});

  /// Trains on `data`. With several ranks each has all of the data and
  /// processes its part of every batch; reports are global, rank 0 writes
  /// checkpoints, and all ranks read them from the same folder.
  Result<FitReport> fit(const Dataset &data, const FitOptions &options);

  /// Returns host copies of the complete state except 16-bit parameter copies:
  /// parameters, statistics, optimizer and loss-scale state.
  Result<std::vector<NamedTensor>> state() const;
  /// Returns parameters and statistics only: the trained model.
  Result<std::vector<NamedTensor>> weights() const;
  /// Replaces the complete state(); names and types must match. 16-bit copies
  /// are updated.
  Status setState(std::span<const NamedTensor> tensors);

  /// Writes the model, which must be ONNX, with the current weights;
  /// collective, rank 0 writes.
  Status exportOnnx(const std::string &path) const;
  /// Checks the preconditions of exportOnnx(); writes nothing.
  Status checkExport(const std::string &path) const;

  /// Returns the types of a layer and its sublayers, including gradients
  /// (findLayer()).
  Result<LayerTypes> layer(const std::string &path) const {
    return findLayer(program().layers, path);
  }

  /// The compiled step; with accumulation the forward and backward part.
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
