//===- TrainerImpl.h - implementation of Trainer ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TRAINERIMPL_H
#define MPC_LIB_TRAINING_TRAINERIMPL_H

#include "BoundProgram.h"
#include "DataParallelGroup.h"

#include "mpc/Training/LossScale.h"
#include "mpc/Training/Trainer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

namespace mpc {

namespace training {

/// Sums of losses and correct predictions, from which TrainingMetrics are
/// computed.
struct Totals {
  int64_t batches = 0, finite = 0;
  double loss = 0;
  /// Examples with a class label.
  int64_t hits = 0, examples = 0;

  /// Adds a batch: its loss, and the compared output with its labels if these
  /// are classes (else `output` is null). Labels equal to `ignored` do not
  /// count; a batch without other labels has no loss and is not added.
  /// Everything but labels without an output is in host memory.
  void add(double value, const Buffer &output, const Buffer &labels,
           std::optional<int64_t> ignored);
  void add(const Totals &other);
  TrainingMetrics metrics() const;
};

} // namespace training

struct Trainer::Impl {
  Impl(Engine engine, ModelSource model, training::SharedProgramState state)
      : engine(std::move(engine)), model(std::move(model)),
        state(std::move(state)) {}

  Engine engine;
  ModelSource model;
  CompileOptions options;
  /// Remarks of the compile of the first program.
  std::vector<WeightChoice> weightChoices;
  training::SharedProgramState state;
  training::DataParallelGroup ranks;

  /// The whole step, or with accumulation its first half.
  std::unique_ptr<training::BoundProgram> first;
  /// Separate forward-backward and update programs.
  std::unique_ptr<training::BoundProgram> forward, update;
  /// The same as `first` and `forward`, for batches of other sizes.
  std::map<std::pair<TrainingPart, int64_t>, training::BoundProgram> otherSizes;
  /// The program that last updated and wrote the overflow record; null before a
  /// step.
  const training::BoundProgram *recorder = nullptr;
  /// Parameter copies that were recomputed since.
  std::set<std::string> renewed;
  /// Evaluation programs by batch size.
  std::map<int64_t, training::BoundProgram> evaluators;

  /// Number of batches since the last update.
  int64_t inWindow = 0;
  /// True between forwardBackward() and apply().
  bool hasGradients = false;
  training::Totals totals;

  /// A GPU step whose results the host has not read: the labels and results in
  /// page-locked memory. Valid once the stream has passed.
  struct Pending {
    Buffer loss, output;
    std::vector<Buffer> batch;
  };
  std::vector<Pending> pending;
  /// Buffers for reuse.
  std::vector<Pending> spare;

  Result<training::BoundProgram> compile(const ModelSource &source,
                                         TrainingPart part,
                                         std::optional<int64_t> batch = {});
  /// Assigns each rank its part of the batch, and all the same network
  /// parameters. Fails on every rank if options differ.
  Status partitionBatch();
  /// Fails unless `program` takes this rank's part of a batch.
  Status hasShards(const training::BoundProgram &program) const;
  /// Fails on every rank unless `program` is equal on all.
  Status checkRanksAgree(const Program &program) const;
  /// Compiles the programs of forwardBackward() and apply().
  Status compileGradientAndUpdate();
  /// State of this rank: complete tensors, and shards with their unsharded
  /// shapes.
  struct OwnedTrainerState {
    std::vector<NamedTensor> tensors, pieces;
    std::map<std::string, std::vector<int64_t>> shapes;
  };
  Result<OwnedTrainerState> ownState() const;
  /// Size of a checkpoint's tensors in bytes, all shards together.
  uint64_t stateBytes() const;
  /// Recomputes all parameter copies.
  Status recomputeNarrowCopies();
  /// Recomputes those that `reader` reads and the last update did not write.
  /// Collective.
  Status recomputeNarrowCopiesFor(const training::BoundProgram &reader);
  /// Records an update by `program`.
  void noteUpdate(const training::BoundProgram &program);
  /// Returns `usual`, or the same part for the size of `batch`, from its model
  /// if there is one.
  Result<training::BoundProgram *>
  forSize(training::BoundProgram &usual, TrainingPart part,
          std::span<const Buffer> batch,
          const std::map<int64_t, ModelSource> &models);
  Status runForward(training::BoundProgram &program,
                    std::span<const Buffer> batch);
  /// Allocates a pending step, with copies of the batch's host buffers, and of
  /// labels to compare with an output.
  Result<Pending> stage(std::span<const Buffer> batch, const Buffer &loss,
                        const Buffer &output);
  /// Reads pending steps into `totals`.
  Status drain();
  /// Creates a batcher for that program's batches.
  Result<Batcher> batcherFor(const training::BoundProgram &program,
                             const Dataset &data,
                             const Normalization &normalization) const;
  /// Returns the evaluation program for a batch size, from its forward model if
  /// there is one.
  Result<training::BoundProgram *>
  evaluator(int64_t batch, const std::map<int64_t, ModelSource> &models);
  /// Returns the index of the result to compare with labels, or -1.
  int judged(const training::BoundProgram &program) const;
  /// Returns true if labels are classes that the output can be compared with.
  bool comparable(const training::BoundProgram &program) const;
  /// Returns the loss-scaling preset.
  LossScalePreset lossScalePreset() const;
  /// Returns the entry of a field of the loss scale's state, or null.
  const training::SharedProgramState::Entry *
  lossScaleField(const std::string &field) const;
  std::optional<int64_t> ignored() const {
    return options.training->loss.ignoreIndex;
  }
};

} // namespace mpc

#endif // MPC_LIB_TRAINING_TRAINERIMPL_H
