//===- TrainingStep.h - a step on given gradients ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds a module in which optimizers read gradients that are arguments, runs
// the product's stages on it (mpc-scale-loss among them), and executes it by
// the oracle and by code for the CPU. Knows nothing of recordings, and has no
// rule of a loss scale or an optimizer of its own.
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
  /// The op's name behind "mpc.optimizer.", and its attributes: "beta1 = 0.9".
  std::string op, attributes;
  /// The states that it then has, as getStateNames() says.
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
  /// Whether the step also gives the scaled loss, and each unscaled gradient.
  bool probes = false;
  /// What the stages are told: loss scale, clipping, accumulation.
  TrainingOptions training;
};

/// The name of an optimizer's step counter.
std::string stepName(const StepSpec &spec, size_t optimizer);

/// A compiled step. It keeps no values between runs.
///
/// Arguments: "loss" (with probes), "PARAMETER.scaled_gradient", "PARAMETER",
/// "PARAMETER.STATE", the step counters, and what the stages add, as
/// "loss_scale.scale". Results: the new value of each but the gradients, and
/// with probes "scaled_loss" and "PARAMETER.unscaled".
class TrainingStep {
public:
  enum class Device { Oracle, Cpu };

  static llvm::Expected<std::unique_ptr<TrainingStep>>
  compile(const StepSpec &spec, Device device);
  virtual ~TrainingStep() = default;

  /// What training begins with, as far as the module says; zeros elsewhere.
  const Values &initial() const { return start; }
  /// Runs on the arguments, which must all be there.
  virtual llvm::Expected<Values> run(const Values &arguments) = 0;

protected:
  Values start;
};

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_TRAININGSTEP_H
