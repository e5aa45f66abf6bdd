//===- Options.h - what a training step is made of --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain values: loss, optimizer, schedule, loss scale, and which part of a step
// to compile. Includes nothing of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_OPTIONS_H
#define MPC_TRAINING_OPTIONS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

struct LossOptions {
  /// "softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error",
  /// "mean_absolute_error", "huber", or "output": the model computes its loss
  /// itself, as a scalar output.
  std::string kind = "softmax_cross_entropy";
  /// The model output that is judged, or is the loss; empty takes the only one.
  std::string output;
  /// Labels: "classes" (i32, one per row) or "dense" (the output's shape).
  /// Empty takes classes for softmax_cross_entropy, dense for the others. Of
  /// "output": the name of the input that takes the labels; empty takes the
  /// last one.
  std::string labels;
  double labelSmoothing = 0;
  std::optional<int64_t> ignoreIndex;
  /// Of huber.
  double delta = 1;
};

struct OptimizerOptions {
  /// "sgd", "adam", "adamw", "rmsprop" or "adagrad".
  std::string kind = "adam";
  /// "torch" or "keras": whose formula, where they differ.
  std::string form = "torch";
  /// The kind's own numbers by the names of the op's attributes ("momentum",
  /// "beta1", "epsilon", ...; flags "nesterov", "amsgrad", "centered",
  /// "maximize" are 1 or 0). What is absent has the form's default.
  std::map<std::string, double> numbers;
  /// Absent: the form's default of the kind (adamw: 0.01 in torch's, 0.004 in
  /// keras's; else 0). Decoupled for adamw, coupled for the others.
  std::optional<double> weightDecay;
};

struct ScheduleOptions {
  /// "constant", "step", "cosine" or "linear".
  std::string kind = "constant";
  double base = 1e-3;
  int64_t warmup = 0;
  /// Steps after which cosine and linear have arrived at `final`.
  int64_t steps = 0;
  double final = 0;
  /// Of "step": every `period` steps the rate is multiplied by `gamma`.
  int64_t period = 0;
  double gamma = 0.1;
};

/// The ranks that train together, each on its part of every batch.
struct DistributionOptions {
  int64_t ranks = 1;
  /// What a message takes: seconds, and bytes of a rank per second. Every rank
  /// must be given the same numbers, for they shape the step.
  double latency = 5e-5, bandwidth = 1e9;
  /// Whether batch norms have the statistics of all ranks' examples.
  bool syncBatchNorm = false;
  /// "optimizer": each rank keeps and updates one part in `ranks` of every
  /// parameter's float32 values and of the optimizer's states; "none": all of
  /// them.
  std::string shard = "none";
};

/// Which function of a model is compiled.
enum class TrainingPart {
  /// Forward, backward and update in one program.
  Step,
  /// Forward and backward: gives loss, outputs and gradients, scaled by the
  /// loss scale, and adds them to what earlier calls of the window gave.
  ForwardBackward,
  /// Check, clip, update and the new loss scale, from gradients.
  Apply,
  /// Forward with dropout off and running statistics: outputs, loss.
  Evaluate,
};

struct TrainingOptions {
  TrainingPart part = TrainingPart::Step;
  LossOptions loss;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  /// `PRESET[,field=value...]`: "dynamic" (torch's), "torch", "keras3",
  /// "tf_keras", "tf2.1", "apex", "deepspeed", "static=1024", "none"; empty
  /// takes "dynamic" for policies that compute in f16, else "none".
  std::string lossScale;
  /// Largest global norm, and largest magnitude, of unscaled gradients.
  std::optional<double> clipNorm, clipValue;
  /// Micro steps whose gradients are averaged into one update.
  int64_t accumulate = 1;
  DistributionOptions distribution;
  /// Dropout that an exported model has lost: name of the op or value behind
  /// which it goes, and the probability.
  std::map<std::string, double> dropout;
  /// Parameters by name or full-match regex: `freeze` keeps constants,
  /// `trainable`, where not empty, says which alone are trained.
  std::vector<std::string> freeze, trainable;
  /// Inputs that are parameters, by name or full-match regex: a model that is a
  /// function of its parameters has no weights of its own. They begin with the
  /// values that CompileOptions::inputValues has for them.
  std::vector<std::string> parameters;
  /// Of a model that computes the gradients of its parameters itself, as a
  /// framework's trace of forward and backward pass does: "PARAMETER=RESULT"
  /// for each trained one of `parameters`. Nothing of such a model is
  /// differentiated or bypassed, and its constants are not trained. Empty: the
  /// compiler differentiates the model.
  std::vector<std::string> gradients;
  /// The input of such a model that takes the cotangent of `loss.output`. It
  /// becomes the derivative of the loss, in which the loss scale is a factor.
  std::string cotangent;
  /// Set: parameters begin with values drawn from this seed, not the model's.
  std::optional<uint64_t> initialSeed;
  /// Momentum of running statistics in batch norms.
  double statisticsMomentum = 0.1;
};

} // namespace mpc

#endif // MPC_TRAINING_OPTIONS_H
