//===- Options.h - options of a training step -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain values: loss, optimizer, schedule, loss scale, and the part of a step
// to compile. Uses no LLVM or MLIR header.
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
  /// Model output that the loss compares with the labels, or that is the loss;
  /// empty: the only one.
  std::string output;
  /// Labels: "classes" (i32, one per row) or "dense" (the output's shape).
  /// Empty: classes for softmax_cross_entropy, dense for others. For "output":
  /// the name of the input for labels; empty: the last one.
  std::string labels;
  double labelSmoothing = 0;
  std::optional<int64_t> ignoreIndex;
  /// Threshold of huber.
  double delta = 1;
};

struct OptimizerOptions {
  /// "sgd", "adam", "adamw", "rmsprop" or "adagrad".
  std::string kind = "adam";
  /// "torch" or "keras": variant of the update formula.
  std::string form = "torch";
  /// Hyperparameters by the op's attribute names ("momentum", "beta1",
  /// "epsilon", ...; flags "nesterov", "amsgrad", "centered", "maximize" are 1
  /// or 0). Missing ones have the form's default.
  std::map<std::string, double> numbers;
  /// Weight decay, decoupled for adamw, coupled for others; absent: the form's
  /// default (adamw: 0.01 for torch, 0.004 for keras; else 0).
  std::optional<double> weightDecay;
};

struct ScheduleOptions {
  /// "constant", "step", "cosine" or "linear".
  std::string kind = "constant";
  double base = 1e-3;
  int64_t warmup = 0;
  /// Number of steps until cosine and linear reach `final`.
  int64_t steps = 0;
  double final = 0;
  /// For "step": the rate is multiplied by `gamma` every `period` steps.
  int64_t period = 0;
  double gamma = 0.1;
};

/// Data-parallel ranks, each with a part of every batch.
struct DistributionOptions {
  int64_t ranks = 1;
  /// Communication cost model: latency in seconds, and bandwidth per rank in
  /// bytes per second. Must be equal on all ranks, since they affect the
  /// compiled step.
  double latency = 5e-5, bandwidth = 1e9;
  /// True to compute batch-norm statistics over all ranks' examples.
  bool syncBatchNorm = false;
  /// "optimizer": each rank stores and updates a 1/ranks shard of every
  /// parameter's float32 values and optimizer states (as in ZeRO); "none": all
  /// of them.
  std::string shard = "none";
};

/// Compiled part of a training step.
enum class TrainingPart {
  /// Forward, backward and update in one program.
  Step,
  /// Forward and backward: computes loss, outputs and gradients, scaled by the
  /// loss scale and accumulated over the calls of the window.
  ForwardBackward,
  /// Check, clipping, update and new loss scale, from gradients.
  Apply,
  /// Forward without dropout and with running statistics: outputs, loss.
  Evaluate,
};

struct TrainingOptions {
  TrainingPart part = TrainingPart::Step;
  LossOptions loss;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  /// `PRESET[,field=value...]`: "dynamic" (torch's), "torch", "keras3",
  /// "tf_keras", "tf2.1", "apex", "deepspeed", "static=1024", "none"; empty:
  /// "dynamic" for policies that compute in f16, else "none".
  std::string lossScale;
  /// Maximum global norm, and maximum magnitude, of unscaled gradients.
  std::optional<double> clipNorm, clipValue;
  /// Number of micro steps whose gradients are averaged for one update.
  int64_t accumulate = 1;
  DistributionOptions distribution;
  /// Dropout that an exported model has lost: probability by the name of the op
  /// or value after which it is inserted.
  std::map<std::string, double> dropout;
  /// Parameters by name or full-match regex: `freeze` lists constants,
  /// `trainable`, if not empty, the only ones to train.
  std::vector<std::string> freeze, trainable;
  /// Inputs that are parameters, by name or full-match regex, for a model that
  /// is a function of its parameters. Their initial values are in
  /// CompileOptions::inputValues.
  std::vector<std::string> parameters;
  /// For a model that computes its own gradients, such as a framework's trace
  /// of forward and backward pass: "PARAMETER=RESULT" for each trained one of
  /// `parameters`. Such a model is not differentiated, and its constants are
  /// not trained. Empty: the compiler differentiates the model.
  std::vector<std::string> gradients;
  /// Input of such a model for the cotangent of `loss.output`. It is replaced
  /// by the derivative of the loss times the loss scale.
  std::string cotangent;
  /// If set, parameters are initialized randomly with this seed instead of the
  /// model's values.
  std::optional<uint64_t> initialSeed;
  /// Momentum of the running statistics of batch norms.
  double statisticsMomentum = 0.1;
};

} // namespace mpc

#endif // MPC_TRAINING_OPTIONS_H
