//===- Evaluation.h - interface of the op families --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Execution state of one op, and the entry points of all op families.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_REFERENCE_EVALUATION_H
#define MPC_LIB_REFERENCE_EVALUATION_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Interpreter.h"

namespace mpc::reference {

/// Execution state of one op.
struct Evaluation {
  mlir::Operation *op;
  llvm::ArrayRef<const Tensor *> operands;
  llvm::SmallVectorImpl<Tensor> &results;
  Rounding rounding;
  std::optional<TensorCores> tensorCores = {};

  const Tensor &operand(unsigned index) const { return *operands[index]; }

  /// Returns the tensor of an optional operand, null if absent. `value` is the
  /// result of the op's accessor.
  const Tensor *find(mlir::Value value) const {
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      if (value && operand == value)
        return operands[index];
    return nullptr;
  }

  mlir::RankedTensorType resultType(unsigned index = 0) const {
    return llvm::cast<mlir::RankedTensorType>(op->getResult(index).getType());
  }

  /// Appends a zero tensor of the next result's type. The reference is
  /// invalidated by the next call: ops with several results add all of them
  /// first.
  Tensor &addResult() {
    return results.emplace_back(resultType(results.size()));
  }

  /// Rounds all float results to their types in storage-rounding mode.
  void roundResults() {
    if (roundsToTypes(rounding))
      for (Tensor &result : results)
        result.roundToType();
  }
};

// Each returns true after executing an op of its family, false for other ops.
// Failures emit an error at the op.
mlir::FailureOr<bool> evaluateUnary(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateBinary(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateMatmul(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateConvolution(Evaluation &evaluation);
mlir::FailureOr<bool> evaluatePool(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateAttention(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateReduction(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateNormalization(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateTensorOp(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateGatherScatter(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateRecurrent(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateRecurrenceGradient(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateOptimizer(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateTrainingState(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateLoss(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateTrainingForm(Evaluation &evaluation);
mlir::FailureOr<bool> evaluateWindowGradient(Evaluation &evaluation);

//===----------------------------------------------------------------------===//
// Integer types
//===----------------------------------------------------------------------===//

/// Width and signedness of an integer type; i1 is unsigned.
struct IntegerKind {
  explicit IntegerKind(mlir::Type type)
      : width(type.getIntOrFloatBitWidth()),
        isUnsigned(type.isUnsignedInteger() || width == 1) {}

  int64_t wrap(int64_t value) const {
    if (width == 64)
      return value;
    uint64_t low = static_cast<uint64_t>(value) << (64 - width);
    return isUnsigned ? static_cast<int64_t>(low >> (64 - width))
                      : static_cast<int64_t>(low) >> (64 - width);
  }
  bool less(int64_t lhs, int64_t rhs) const {
    return isUnsigned ? static_cast<uint64_t>(lhs) < static_cast<uint64_t>(rhs)
                      : lhs < rhs;
  }
  int64_t lowest() const {
    return isUnsigned
               ? 0
               : -static_cast<int64_t>((uint64_t(1) << (width - 1)) - 1) - 1;
  }
  int64_t highest() const {
    unsigned bits = isUnsigned ? width : width - 1;
    return static_cast<int64_t>(bits == 64 ? ~uint64_t(0)
                                           : (uint64_t(1) << bits) - 1);
  }

  unsigned width;
  bool isUnsigned;
};

/// Maximum and minimum; NaN takes precedence.
inline double maximum(double lhs, double rhs) {
  return std::isnan(lhs) || lhs > rhs ? lhs
                                      : (std::isnan(rhs) || rhs > lhs ? rhs
                                         : std::signbit(lhs)          ? rhs
                                                                      : lhs);
}
inline double minimum(double lhs, double rhs) {
  return std::isnan(lhs) || lhs < rhs ? lhs
                                      : (std::isnan(rhs) || rhs < lhs ? rhs
                                         : std::signbit(lhs)          ? lhs
                                                                      : rhs);
}

} // namespace mpc::reference

#endif // MPC_LIB_REFERENCE_EVALUATION_H
