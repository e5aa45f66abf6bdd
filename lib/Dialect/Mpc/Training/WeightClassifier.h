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
/// buffers and literals, which it keeps, by the first row of a table of
/// evidence that applies: type, what the exporter recorded, name, uses, values.
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
    /// Frozen only as normalization of an input or of an output: a parameter
    /// after all in a model without others.
    bool onlyNormalizes = false;
  };

  explicit WeightClassifier(const StepFunction &step);
  Verdict judge(ConstantOp op) const;

private:
  /// How a constant is combined with data.
  struct Use {
    enum class Kind {
      /// As a layer's weight.
      Weight,
      /// Weight used as a matrix, a filter, one of a transposed convolution, or
      /// an embedding table.
      Matrix,
      Filter,
      Upsampling,
      Table,
      /// As a table that an argument of an extreme value indexes.
      Codebook,
      /// As a position table or a constant of a formula.
      Formula,
      /// As an angle that follows from constants alone.
      Angle,
      /// As an initial state of zeros.
      State,
      /// Shift or scale of a raw input.
      Normalization,
      /// Scale, zero point or codebook of quantized values.
      Quantization,
      /// No evidence.
      Unknown,
    };
    Kind kind = Kind::Unknown;
    std::string text;
    /// Whether the value is the neutral element of the op.
    bool isNeutral = false;

    bool isWeight() const {
      return kind == Kind::Weight || kind == Kind::Matrix ||
             kind == Kind::Filter || kind == Kind::Upsampling ||
             kind == Kind::Table;
    }
  };

  struct Facts;
  struct Evidence;
  /// Adds the result of `op` to `codes` or `integers`.
  void findCodes(mlir::Operation &op);
  /// Returns true if results of `op` are raw.
  bool keepsRaw(mlir::Operation &op) const;
  /// Returns true if `value` is a constant that is not trained, moved or not.
  bool isFixed(mlir::Value value) const;
  /// Fills `uses` with the uses of `value`, a constant expression, in ops on
  /// data, and as a scale of quantized values unless it `isScaled` itself.
  void collectUses(mlir::Value value, llvm::SmallVectorImpl<Use> &uses,
                   bool isScaled = false) const;
  /// Returns true if the constant operand `index` of the arithmetic `op` shifts
  /// or scales a raw value: it adds no dimensions, as an embedding of numbers
  /// does, and no table of positions.
  bool shiftsRaw(mlir::Operation *op, unsigned index) const;
  /// Returns true if all uses of `value` shift or scale raw values.
  bool normalizesInput(mlir::Value value) const;
  /// Returns true if the product of `value` with a constant divides a constant,
  /// as the singular vectors of a normalized weight do. `isProjected` is for
  /// the recursion.
  bool normalizesWeight(mlir::Value value, bool isProjected = false,
                        unsigned depth = 8) const;
  /// Returns true if `value` is combined, without data, with the root of a
  /// tensor: scale or shift of a batch norm that was written as arithmetic.
  bool meetsDeviation(mlir::Value value) const;
  /// Returns true if layers use `value` as a weight only.
  bool isLayerWeight(mlir::Value value) const;
  /// Returns true if `use` shifts or scales quantized values, alone or in a
  /// product of at most `depth` more scales.
  bool scalesCodes(mlir::OpOperand &use, unsigned depth = 4) const;
  /// Describes how `operand`, a constant expression, is applied to data.
  Use describeUse(mlir::OpOperand &operand) const;
  bool followsFromData(mlir::Value value) const { return data.contains(value); }

  /// Values that depend on an argument; the raw ones have met only constants,
  /// in ops of preprocessing.
  llvm::DenseSet<mlir::Value> data, raw;
  /// Quantized values before and after their scale: rounded ones and those of
  /// constants of 2 to 16 bits; and values of constants of more bits.
  llvm::DenseSet<mlir::Value> codes, integers;
  /// Whether constants record an origin (those without were made at import),
  /// whether the file stores float initializers, and whether its exporter
  /// recorded which ones are parameters.
  bool hasOrigins = false, hasInitializers = false, hasRecord = false;
  /// Whether the file has batch norms in training form; the others keep their
  /// statistics.
  bool hasTrainingNorms = false;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_WEIGHTCLASSIFIER_H
