//===- VjpBuilder.h - builder for derivative rules --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers shared by all rules: arithmetic with NumPy broadcasting, reduction to
// an operand's shape, and a template that turns a rule into an interface model.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_VJP_VJPBUILDER_H
#define MPC_LIB_DIALECT_MPC_VJP_VJPBUILDER_H

#include "../Transforms/OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

namespace mpc {

/// Emits the vector-Jacobian product of one op.
class VjpBuilder : public OpEmitter {
public:
  VjpBuilder(mlir::OpBuilder &builder, mlir::Operation *op,
             llvm::ArrayRef<mlir::Value> cotangents,
             llvm::ArrayRef<bool> needed,
             llvm::MutableArrayRef<mlir::Value> operandCotangents)
      : OpEmitter(builder, op), op(op), cotangents(cotangents), needed(needed),
        given(operandCotangents) {}

  mlir::Operation *op;

  //===--- Cotangents -----------------------------------------------------===//

  /// Cotangent of a result, or null.
  mlir::Value dy(unsigned result = 0) const { return cotangents[result]; }
  bool needs(unsigned operand) const { return needed[operand]; }
  /// Sets the cotangent of an operand: reduces `value` over broadcast
  /// dimensions and rounds it to the operand's type. Ignored if not needed.
  void give(unsigned operand, mlir::Value value);

  //===--- Types ----------------------------------------------------------===//

  mlir::Type elementOf(mlir::Value value) const {
    return mlir::getElementTypeOrSelf(value);
  }
  int64_t rankOf(mlir::Value value) const { return shapeOf(value).size(); }
  /// Compute type of multi-step derivatives: f32 for smaller floats.
  mlir::Type wideType(mlir::Type element) const;
  mlir::Value wide(mlir::Value value) {
    return cast(value, wideType(elementOf(value)));
  }
  mlir::Value wideDy(unsigned result = 0) { return wide(dy(result)); }

  //===--- Arithmetic -----------------------------------------------------===//

  /// Rank-0 constant of `like`'s element type.
  mlir::Value scalar(double value, mlir::Value like) {
    return splat({}, elementOf(like), value);
  }
  mlir::Value zerosLike(mlir::Value value) {
    return splat(shapeOf(value), elementOf(value), 0.0);
  }
  template <typename OpTy> mlir::Value unary(mlir::Value value) {
    return create<OpTy>(value.getType(), value);
  }
  mlir::Value add(mlir::Value lhs, mlir::Value rhs) {
    return create<AddOp>(lhs, rhs);
  }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) {
    return create<SubOp>(lhs, rhs);
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) {
    return create<MulOp>(lhs, rhs);
  }
  mlir::Value div(mlir::Value lhs, mlir::Value rhs) {
    return create<DivOp>(lhs, rhs);
  }
  mlir::Value add(mlir::Value lhs, double rhs) {
    return add(lhs, scalar(rhs, lhs));
  }
  mlir::Value sub(double lhs, mlir::Value rhs) {
    return sub(scalar(lhs, rhs), rhs);
  }
  mlir::Value mul(mlir::Value lhs, double rhs) {
    return mul(lhs, scalar(rhs, lhs));
  }
  mlir::Value neg(mlir::Value value) { return unary<NegOp>(value); }
  mlir::Value square(mlir::Value value) { return mul(value, value); }
  mlir::Value compare(ComparePredicate predicate, mlir::Value lhs,
                      mlir::Value rhs) {
    return create<CompareOp>(predicate, lhs, rhs);
  }
  mlir::Value compare(ComparePredicate predicate, mlir::Value lhs, double rhs) {
    return compare(predicate, lhs, scalar(rhs, lhs));
  }
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse) {
    return create<SelectOp>(condition, onTrue, onFalse);
  }
  /// `value` if the condition holds, else 0.
  mlir::Value keepWhere(mlir::Value condition, mlir::Value value) {
    return select(condition, value, scalar(0.0, value));
  }

  //===--- Shapes ---------------------------------------------------------===//

  /// Sum over `axes`, kept as extents of 1.
  mlir::Value sum(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// Sum over the dimensions along which `shape` broadcasts to the value's.
  mlir::Value sumTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Reshapes `[channels]` to broadcast along axis 1 of `like`.
  mlir::Value perChannel(mlir::Value value, mlir::Value like);

private:
  llvm::ArrayRef<mlir::Value> cotangents;
  llvm::ArrayRef<bool> needed;
  llvm::MutableArrayRef<mlir::Value> given;
};

/// Integers in [`begin`, `end`).
llvm::SmallVector<int64_t> axesFrom(int64_t begin, int64_t end);

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

template <typename OpTy, typename Rule>
struct VjpModel : VjpOpInterface::ExternalModel<VjpModel<OpTy, Rule>, OpTy> {
  llvm::LogicalResult
  buildVjp(mlir::Operation *op, mlir::OpBuilder &builder,
           llvm::ArrayRef<mlir::Value> cotangents, llvm::ArrayRef<bool> needed,
           llvm::MutableArrayRef<mlir::Value> operandCotangents) const {
    VjpBuilder vjp(builder, op, cotangents, needed, operandCotangents);
    auto typed = llvm::cast<OpTy>(op);
    if constexpr (std::is_void_v<decltype(Rule{}(typed, vjp))>) {
      Rule{}(typed, vjp);
      return llvm::success();
    } else {
      return Rule{}(typed, vjp);
    }
  }
};

/// Registers `rule` as the derivative of OpTy: a captureless lambda of the op
/// and a VjpBuilder that returns nothing or a LogicalResult.
template <typename OpTy, typename Rule>
void attachVjp(mlir::MLIRContext *context, Rule rule) {
  OpTy::template attachInterface<VjpModel<OpTy, Rule>>(*context);
}

// One function per op family.
void attachUnaryVjps(mlir::MLIRContext *context);
void attachBinaryVjps(mlir::MLIRContext *context);
void attachContractionVjps(mlir::MLIRContext *context);
void attachPoolVjps(mlir::MLIRContext *context);
void attachAttentionVjps(mlir::MLIRContext *context);
void attachReductionVjps(mlir::MLIRContext *context);
void attachNormalizationVjps(mlir::MLIRContext *context);
void attachMovementVjps(mlir::MLIRContext *context);
void attachGatherVjps(mlir::MLIRContext *context);
void attachScatterVjps(mlir::MLIRContext *context);
void attachLossVjps(mlir::MLIRContext *context);
void attachRecurrenceVjps(mlir::MLIRContext *context);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_VJP_VJPBUILDER_H
