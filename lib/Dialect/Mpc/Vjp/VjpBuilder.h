//===- VjpBuilder.h - what derivatives are written with ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of the op families share this: arithmetic with NumPy broadcasting,
// sums back to an operand's shape, and the template that makes an interface
// model of a rule.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_VJP_VJPBUILDER_H
#define MPC_LIB_DIALECT_MPC_VJP_VJPBUILDER_H

#include "../Transforms/OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

namespace mpc {

/// One op's derivative being written.
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

  /// What flows back into a result; null where nothing does.
  mlir::Value dy(unsigned result = 0) const { return cotangents[result]; }
  bool needs(unsigned operand) const { return needed[operand]; }
  /// The cotangent of an operand: `value`, summed over the dimensions along
  /// which the operand was broadcast and rounded to its type. Ignored where it
  /// is not needed.
  void give(unsigned operand, mlir::Value value);

  //===--- Types ----------------------------------------------------------===//

  mlir::Type elementOf(mlir::Value value) const {
    return mlir::getElementTypeOrSelf(value);
  }
  int64_t rankOf(mlir::Value value) const { return shapeOf(value).size(); }
  /// f32 for narrower floats: what a derivative of several steps computes in.
  mlir::Type wideType(mlir::Type element) const;
  mlir::Value wide(mlir::Value value) {
    return cast(value, wideType(elementOf(value)));
  }
  mlir::Value wideDy(unsigned result = 0) { return wide(dy(result)); }

  //===--- Arithmetic -----------------------------------------------------===//

  /// A constant without dimensions, of `like`'s element type.
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
  /// `value` where the condition holds, 0 elsewhere.
  mlir::Value keepWhere(mlir::Value condition, mlir::Value value) {
    return select(condition, value, scalar(0.0, value));
  }

  //===--- Shapes ---------------------------------------------------------===//

  /// The sum over axes, which stay with extent 1.
  mlir::Value sum(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  mlir::Value mean(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// The sum over the dimensions along which `shape` broadcasts to the value's.
  mlir::Value sumTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcastTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// `[channels]` as a tensor that broadcasts along axis 1 of `like`.
  mlir::Value perChannel(mlir::Value value, mlir::Value like);

private:
  llvm::ArrayRef<mlir::Value> cotangents;
  llvm::ArrayRef<bool> needed;
  llvm::MutableArrayRef<mlir::Value> given;
};

/// The numbers `begin` to `end` - 1.
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

/// Makes `rule`, a lambda without captures that takes the op and a VjpBuilder
/// and returns nothing or a LogicalResult, the derivative of OpTy.
template <typename OpTy, typename Rule>
void attachVjp(mlir::MLIRContext *context, Rule rule) {
  OpTy::template attachInterface<VjpModel<OpTy, Rule>>(*context);
}

// One per family.
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
