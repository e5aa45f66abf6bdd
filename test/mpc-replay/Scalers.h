//===- Scalers.h - settings of a recorded loss scaler -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_REPLAY_SCALERS_H
#define MPC_TOOLS_REPLAY_SCALERS_H

#include "Replay.h"
#include "TrainingStep.h"

namespace mpc::replay {

/// The optimizer of a recording, from its class' name and options as torch has
/// them.
OptimizerSpec torchOptimizer(const std::string &name, const Json &options);
/// The same of Keras 3 and tf_keras.
OptimizerSpec kerasOptimizer(const std::string &name, const Json &options);

/// A recorded run of a loss scaler, in the terms of mpc.
struct ScalerRun {
  enum class System { Torch, Keras3, TfKeras };
  System system = System::Torch;
  StepSpec spec;
  /// The name of a recorded state for each "PARAMETER.STATE" of the step.
  std::map<std::string, std::string> stateNames;
  /// Whether the recorded system turns subnormal numbers into 0.
  bool flushes = false;
  /// torch.optim's one-kernel implementation.
  bool fused = false;
  /// Window of accumulation that the scaler sees micro step by micro step.
  bool microSteps = false;
  bool clips = false;
};

/// Throws if a field is missing or malformed.
ScalerRun readScalerRun(const Json &recording);

} // namespace mpc::replay

#endif // MPC_TOOLS_REPLAY_SCALERS_H
