//===- WeightChoice.h - what training does with a weight --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Includes nothing of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_WEIGHTCHOICE_H
#define MPC_TRAINING_WEIGHTCHOICE_H

#include <optional>
#include <string>

namespace mpc {

/// What training does with a tensor that the model stores, and why. A plain
/// value.
struct WeightChoice {
  enum class Use {
    /// The optimizer updates it.
    Trained,
    /// Running statistics of a batch norm, which follow the batches.
    Statistics,
    /// Stays as it is.
    Frozen,
  };
  /// The model's name of it.
  std::string name;
  /// "tensor<10x784xf32>".
  std::string type;
  Use use = Use::Frozen;
  /// A clause: "it is added to the result of 'fc'".
  std::string reason;

  /// The remark of mpc-lift-parameters; its place names the tensor.
  std::string toText() const;
  /// Reads such a remark; nothing where `text` is another one.
  static std::optional<WeightChoice> parse(const std::string &name,
                                           const std::string &text);
};

} // namespace mpc

#endif // MPC_TRAINING_WEIGHTCHOICE_H
