//===- ScalarEmitter.h - arithmetic on tensors and scalars ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Concise helpers for the arithmetic of updates and losses.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_SCALAREMITTER_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_SCALAREMITTER_H

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "OpEmitter.h"

namespace mpc {

/// Accumulator type of `element`: f32 for smaller floats.
inline mlir::Type sumType(mlir::Type element) {
  return element.getIntOrFloatBitWidth() < 32
             ? mlir::Float32Type::get(element.getContext())
             : element;
}

inline llvm::SmallVector<int64_t> allAxes(mlir::Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(value).size()));
}

/// Creates broadcasting elementwise ops and reductions; the operands of an op
/// have one element type.
class ScalarEmitter : public OpEmitter {
public:
  using OpEmitter::OpEmitter;

  mlir::Value add(mlir::Value a, mlir::Value b) { return binary<AddOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return binary<SubOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return binary<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return binary<DivOp>(a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return binary<MaxOp>(a, b); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return binary<MinOp>(a, b); }
  mlir::Value pow(mlir::Value a, mlir::Value b) { return binary<PowOp>(a, b); }
  mlir::Value sqrt(mlir::Value a) { return unary<SqrtOp>(a); }
  mlir::Value neg(mlir::Value a) { return unary<NegOp>(a); }
  mlir::Value abs(mlir::Value a) { return unary<AbsOp>(a); }

  template <typename OpTy> mlir::Value unary(mlir::Value a) {
    return create<OpTy>(a.getType(), a);
  }
  template <typename OpTy> mlir::Value binary(mlir::Value a, mlir::Value b) {
    return create<OpTy>(a, b);
  }
  mlir::Value compare(ComparePredicate predicate, mlir::Value a,
                      mlir::Value b) {
    return create<CompareOp>(predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return create<SelectOp>(condition, a, b);
  }

  /// Reduction over `axes`, which are dropped or kept as extents of 1.
  template <typename OpTy>
  mlir::Value reduce(mlir::Value value, llvm::ArrayRef<int64_t> axes,
                     bool keepDims = false) {
    llvm::SmallVector<int64_t> shape;
    for (auto [axis, extent] : llvm::enumerate(shapeOf(value)))
      if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
        shape.push_back(extent);
      else if (keepDims)
        shape.push_back(1);
    return create<OpTy>(
        mlir::RankedTensorType::get(shape, mlir::getElementTypeOrSelf(value)),
        value, builder.getDenseI64ArrayAttr(axes),
        keepDims ? builder.getUnitAttr() : mlir::UnitAttr(), mlir::TypeAttr());
  }

  /// Scalar rounded to the element type of `like`.
  mlir::Value number(double value, mlir::Value like) {
    return splat({}, mlir::getElementTypeOrSelf(like), value);
  }
  /// Scalar of float64.
  mlir::Value exact(double value) {
    return splat({}, builder.getF64Type(), value);
  }
  mlir::Value integer(int64_t value, mlir::Value like) {
    auto type =
        mlir::RankedTensorType::get({}, mlir::getElementTypeOrSelf(like));
    return constant(mlir::DenseElementsAttr::get(
        type, builder.getIntegerAttr(type.getElementType(), value)));
  }
  /// `value * factor`, or `value` itself if the factor is 1.
  mlir::Value scale(mlir::Value value, double factor) {
    return factor == 1 ? value : mul(number(factor, value), value);
  }
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_SCALAREMITTER_H
