//===- WeightClassifier.h - parameters or buffers ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTCLASSIFIER_H
#define MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTCLASSIFIER_H

#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Training/WeightChoice.h"

namespace mpc {

/// The use of running statistics, under casts, or null: mean or variance of a
/// batch norm.
mlir::OpOperand *statisticsUse(mlir::Value value);

/// Decides which constants of a model are parameters, which training updates,
/// and which are buffers or numbers of a formula, which it keeps. In this
/// order: what the exporter recorded; what can be trained at all; what the
/// constant feeds; its name; its values.
class WeightClassifier {
public:
  struct Verdict {
    WeightChoice::Use use = WeightChoice::Use::Frozen;
    /// As in WeightChoice.
    std::string reason;
    /// Whether the constant is one that a user of the model knows: stored as a
    /// weight, or floats of more than one element that the file holds.
    bool isNamed = true;
    /// Whether the constant can never be a parameter: an integer, or not
    /// finite.
    bool isFixed = false;
    /// Frozen only as normalization of an input: a parameter after all in a
    /// model without others.
    bool onlyNormalizes = false;
  };

  explicit WeightClassifier(const StepFunction &step);
  Verdict judge(ConstantOp op) const;

private:
  struct Use;
  /// Fills `uses` with the uses of `value`, a constant expression, in ops on
  /// data.
  void collectUses(mlir::Value value, llvm::SmallVectorImpl<Use> &uses,
                   llvm::DenseSet<mlir::Value> &seen) const;
  /// Describes how `operand`, a constant expression, is applied to data.
  Use describeUse(mlir::OpOperand &operand) const;
  bool followsFromData(mlir::Value value) const { return data.contains(value); }

  /// Values that depend on an argument; the raw ones have met only constants,
  /// elementwise.
  llvm::DenseSet<mlir::Value> data, raw;
  /// Whether constants say where the file stores them (those that do not are
  /// no part of it), and whether it stores weights as initializers.
  bool hasOrigins = false, hasInitializers = false;
  /// Whether batch norms of the file are in training form: the others are held.
  bool hasTrainingNorms = false;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTCLASSIFIER_H
