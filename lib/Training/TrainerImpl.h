//===- TrainerImpl.h - what a trainer holds ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TRAINERIMPL_H
#define MPC_LIB_TRAINING_TRAINERIMPL_H

#include "Ranks.h"
#include "Session.h"

#include "mpc/Training/LossScale.h"
#include "mpc/Training/Trainer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <set>

namespace mpc {

namespace training {

/// Sums of losses and hits; what a TrainingMetrics is made of.
struct Totals {
  int64_t batches = 0, finite = 0;
  double loss = 0;
  /// Of examples with a class label.
  int64_t hits = 0, examples = 0;

  /// Adds a batch: its loss, and the judged output with its labels where these
  /// are classes (else `output` is null). Labels equal to `ignored` count for
  /// nothing; a batch with no other label has no loss and is not added. All but
  /// labels without an output are in host memory.
  void add(double value, const Buffer &output, const Buffer &labels,
           std::optional<int64_t> ignored);
  void add(const Totals &other);
  TrainingMetrics metrics() const;
};

} // namespace training

struct Trainer::Impl {
  Impl(Engine engine, ModelSource model, training::SharedState state)
      : engine(std::move(engine)), model(std::move(model)),
        state(std::move(state)) {}

  Engine engine;
  ModelSource model;
  CompileOptions options;
  /// What the compile of the first program said.
  std::vector<WeightChoice> weightChoices;
  training::SharedState state;
  training::Ranks ranks;

  /// The whole step, or under accumulation its first half.
  std::unique_ptr<training::BoundProgram> first;
  /// Forward and backward alone, and the update alone.
  std::unique_ptr<training::BoundProgram> forward, update;
  /// Which of them updated last, and wrote the record of overflows; null before
  /// a step.
  const training::BoundProgram *recorder = nullptr;
  /// Copies of parameters that were made anew since.
  std::set<std::string> renewed;
  /// Evaluation by number of examples.
  std::map<int64_t, training::BoundProgram> evaluators;

  /// Batches since the last update.
  int64_t inWindow = 0;
  /// Whether forwardBackward() gave gradients that apply() has not read.
  bool hasGradients = false;
  training::Totals totals;

  /// A step on a GPU that the host has not looked at yet: what it needs of its
  /// batch and what it gave, in page-locked memory. Valid once the stream has
  /// passed.
  struct Pending {
    Buffer loss, output;
    std::vector<Buffer> batch;
  };
  std::vector<Pending> pending;
  /// Memory for later steps.
  std::vector<Pending> spare;

  Result<training::BoundProgram> compile(const ModelSource &source,
                                         TrainingPart part,
                                         std::optional<int64_t> batch = {});
  /// Gives each rank its part of the batch, and all the same numbers of the
  /// network. Fails on every rank where they were given different options.
  Status shareBatch();
  /// Whether `program` takes this rank's part of a batch.
  Status hasParts(const training::BoundProgram &program) const;
  /// Fails on every rank where `program` is not the same on all.
  Status checkAlike(const Program &program) const;
  /// Compiles what forwardBackward() and apply() run.
  Status needHalves();
  /// What steps keep, as this rank has it: tensors, and of others its piece and
  /// their shapes.
  struct OwnState {
    std::vector<NamedTensor> tensors, pieces;
    std::map<std::string, std::vector<int64_t>> shapes;
  };
  Result<OwnState> ownState() const;
  /// Bytes of what a checkpoint holds, all pieces together.
  uint64_t stateBytes() const;
  /// Makes all copies of parameters anew.
  Status renewCopies();
  /// Makes those anew that `reader` reads and the last update did not write.
  /// All ranks make the call.
  Status renewFor(const training::BoundProgram &reader);
  /// Updates parameters by `program`, whose batch runForward() has checked.
  void noteUpdate(const training::BoundProgram &program);
  Status runForward(training::BoundProgram &program,
                    std::span<const Buffer> batch);
  /// Memory for a step, with a copy of what lies in host memory of its batch,
  /// and of labels that an output is compared with.
  Result<Pending> stage(std::span<const Buffer> batch, const Buffer &loss,
                        const Buffer &output);
  /// Reads what is pending into `totals`.
  Status drain();
  /// A batcher for that program's batches.
  Result<Batcher> batcherFor(const training::BoundProgram &program,
                             const Dataset &data,
                             const Normalization &normalization) const;
  /// The program that evaluates so many examples, of their forward model where
  /// there is one.
  Result<training::BoundProgram *>
  evaluator(int64_t batch, const std::map<int64_t, ModelSource> &models);
  /// The result that labels judge, or -1.
  int judged(const training::BoundProgram &program) const;
  /// Whether labels are classes that such an output can be compared with.
  bool comparable(const training::BoundProgram &program) const;
  /// The preset by which losses are scaled.
  LossScalePreset lossScalePreset() const;
  /// The entry of that field of the loss scale's state, or null.
  const training::SharedState::Entry *
  lossScaleField(const std::string &field) const;
  std::optional<int64_t> ignored() const {
    return options.training->loss.ignoreIndex;
  }
};

} // namespace mpc

#endif // MPC_LIB_TRAINING_TRAINERIMPL_H
