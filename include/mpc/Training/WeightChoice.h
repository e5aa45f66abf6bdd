//===- WeightChoice.h - trained and frozen weights --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses no LLVM or MLIR header.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_WEIGHTCHOICE_H
#define MPC_TRAINING_WEIGHTCHOICE_H

#include <optional>
#include <string>

namespace mpc {

/// Use of a stored tensor in training, with the reason. A plain value.
struct WeightChoice {
  enum class Use {
    /// Updated by the optimizer.
    Trained,
    /// Running statistics of a batch norm, updated from the batches.
    Statistics,
    /// Constant.
    Frozen,
  };
  /// Name in the model.
  std::string name;
  /// "tensor<10x784xf32>".
  std::string type;
  Use use = Use::Frozen;
  /// Reason, a clause: "it is added to the result of 'fc'".
  std::string reason;

  /// Returns the reason of a tensor that is stored again as the transpose of
  /// the trained weight `original`, with which it changes.
  static std::string transposeOf(const std::string &original);
  /// Returns that weight, or an empty string for other reasons.
  std::string original() const;

  /// Formats the remark of mpc-lift-parameters; its location names the tensor.
  std::string toText() const;
  /// Parses such a remark; nullopt for other texts.
  static std::optional<WeightChoice> parse(const std::string &name,
                                           const std::string &text);
};

} // namespace mpc

#endif // MPC_TRAINING_WEIGHTCHOICE_H
