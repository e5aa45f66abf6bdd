//===- TrainingStep.h - a training step on given gradients ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds a module whose optimizers read gradients that are arguments, runs the
// stages of the compiler on it (mpc-scale-loss among them), and executes it in
// the oracle and as code for the CPU. Independent of recordings; implements no
// loss scale or optimizer rules itself.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_TRAININGSTEP_H
#define MPC_TOOLS_REPLAY_TRAININGSTEP_H

#include "mpc/Training/Options.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc::replay {

/// Tensors by name. Every f32, f64, i32 and i64 that occurs fits a double.
using Values = std::map<std::string, std::vector<double>>;

/// One optimizer and the parameters that are its own.
struct OptimizerSpec {
  /// Op name without "mpc.optimizer.", and its attributes: "beta1 = 0.9".
  std::string op, attributes;
  /// Optimizer states of the op, as returned by getStateNames().
  std::vector<std::string> states;
  double learningRate = 0;
  /// The type that the learning rate is held in: "f32" or "f64".
  std::string rateType = "f64";
  std::vector<std::string> parameters;
};

struct StepSpec {
  std::vector<OptimizerSpec> optimizers;
  /// Parameters with their shapes, and the type of parameters and states.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes;
  std::string type = "f32";
  /// Whether the step also returns the scaled loss, and each unscaled gradient.
  bool probes = false;
  /// Options of the stages: loss scale, clipping, accumulation.
  TrainingOptions training;
};

/// The name of an optimizer's step counter.
std::string stepName(const StepSpec &spec, size_t optimizer);

/// A compiled step without state between runs.
///
/// Arguments: "loss" (with probes), "PARAMETER.scaled_gradient", "PARAMETER",
/// "PARAMETER.STATE", the step counters, and values of the stages such as
/// "loss_scale.scale". Results: the new value of each but the gradients, and
/// with probes "scaled_loss" and "PARAMETER.unscaled".
class TrainingStep {
public:
  enum class Device { Oracle, Cpu };

  static llvm::Expected<std::unique_ptr<TrainingStep>>
  compile(const StepSpec &spec, Device device);
  virtual ~TrainingStep() = default;

  /// Initial values that the module defines; all others are zero.
  const Values &initial() const { return start; }
  /// Runs the step on the complete set of arguments.
  virtual llvm::Expected<Values> run(const Values &arguments) = 0;

protected:
  Values start;
};

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TRAININGSTEP_H
