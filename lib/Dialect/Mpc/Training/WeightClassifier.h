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
class ConstantOp;

/// Returns the use of `value`, or of a cast of it, as mean or variance of a
/// batch norm, or null.
mlir::OpOperand *statisticsUse(mlir::Value value);

/// Classifies a model's constants as parameters, which training updates, or
/// buffers and literals, which it keeps. Evidence in order: what the exporter
/// recorded, trainability, uses, name, values.
class WeightClassifier {
public:
  struct Verdict {
    WeightChoice::Use use = WeightChoice::Use::Frozen;
    /// As in WeightChoice.
    std::string reason;
    /// Whether the user knows the constant: stored as a weight, or a float
    /// tensor of several elements in the file.
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
  /// Whether constants record an origin (those without were made at import),
  /// and whether the file stores float initializers.
  bool hasOrigins = false, hasInitializers = false;
  /// Whether the file has batch norms in training form; the others keep their
  /// statistics.
  bool hasTrainingNorms = false;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTCLASSIFIER_H
