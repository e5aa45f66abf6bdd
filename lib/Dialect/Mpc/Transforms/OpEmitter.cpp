//===- OpEmitter.cpp - concise creation of ops ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"

using namespace mlir;
using namespace mpc;

ElementsAttr mpc::constantOf(Value value) {
  auto constant = value.getDefiningOp<mpc::ConstantOp>();
  return constant ? constant.getValue() : ElementsAttr();
}

SmallVector<int64_t> mpc::inversePermutation(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [position, dimension] : llvm::enumerate(permutation))
    inverse[dimension] = position;
  return inverse;
}

SmallVector<int64_t> mpc::swapLast(int64_t rank) {
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  return permutation;
}

bool mpc::isTrivialTranspose(ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> permutation) {
  int64_t last = -1;
  for (int64_t dimension : permutation) {
    if (shape[dimension] == 1)
      continue;
    if (dimension < last)
      return false;
    last = dimension;
  }
  return true;
}

Value OpEmitter::constant(ElementsAttr value) {
  return mpc::ConstantOp::create(builder, loc, value);
}

Value OpEmitter::splat(ArrayRef<int64_t> shape, Type element, double value) {
  return constant(makeSplat(RankedTensorType::get(shape, element), value));
}

Value OpEmitter::castLike(OpBuilder &builder, CastOp cast, Value value) {
  Operation *copy = builder.clone(*cast);
  copy->setOperand(0, value);
  copy->getResult(0).setType(
      mlir::cast<RankedTensorType>(value.getType())
          .clone(getElementTypeOrSelf(cast.getResult())));
  return copy->getResult(0);
}

Value OpEmitter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(value));
  if (ElementsAttr attr = constantOf(value))
    if (FailureOr<ElementsAttr> reshaped = reshapeConstant(attr, type);
        succeeded(reshaped))
      return constant(*reshaped);
  return create<ReshapeOp>(type, value);
}

Value OpEmitter::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return value;
  SmallVector<int64_t> shape;
  for (int64_t dimension : permutation)
    shape.push_back(shapeOf(value)[dimension]);
  if (isTrivialTranspose(shapeOf(value), permutation))
    return reshape(value, shape);
  if (ElementsAttr attr = constantOf(value))
    if (FailureOr<ElementsAttr> transposed =
            transposeConstant(attr, permutation);
        succeeded(transposed))
      return constant(*transposed);
  return create<TransposeOp>(
      RankedTensorType::get(shape, getElementTypeOrSelf(value)), value,
      permutation);
}

Value OpEmitter::slice(Value value, ArrayRef<int64_t> offsets,
                       ArrayRef<int64_t> sizes, ArrayRef<int64_t> steps) {
  if (shapeOf(value) == sizes)
    return value;
  if (ElementsAttr attr = constantOf(value))
    if (FailureOr<ElementsAttr> part =
            sliceConstant(attr, offsets, sizes, steps);
        succeeded(part))
      return constant(*part);
  bool touch = llvm::all_of(steps, [](int64_t step) { return step == 1; });
  return create<SliceOp>(
      RankedTensorType::get(sizes, getElementTypeOrSelf(value)), value,
      builder.getDenseI64ArrayAttr(offsets),
      builder.getDenseI64ArrayAttr(sizes),
      touch ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(steps));
}

Value OpEmitter::sliceAxis(Value value, int64_t axis, int64_t begin,
                           int64_t size) {
  SmallVector<int64_t> offsets(shapeOf(value).size(), 0), sizes(shapeOf(value));
  offsets[axis] = begin;
  sizes[axis] = size;
  return slice(value, offsets, sizes);
}

Value OpEmitter::reverse(Value value, ArrayRef<int64_t> axes) {
  SmallVector<int64_t> moving;
  for (int64_t axis : axes)
    if (shapeOf(value)[axis] > 1)
      moving.push_back(axis);
  if (moving.empty())
    return value;
  if (ElementsAttr attr = constantOf(value))
    if (FailureOr<ElementsAttr> reversed = reverseConstant(attr, moving);
        succeeded(reversed))
      return constant(*reversed);
  return create<ReverseOp>(value.getType(), value, moving);
}

Value OpEmitter::cast(Value value, Type element) {
  if (getElementTypeOrSelf(value) == element)
    return value;
  return create<CastOp>(RankedTensorType::get(shapeOf(value), element), value,
                        /*pinned=*/false);
}

Value OpEmitter::pad(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                     ArrayRef<int64_t> interior) {
  auto isZero = [](int64_t extent) { return extent == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero) &&
      llvm::all_of(interior, isZero))
    return value;
  Type element = getElementTypeOrSelf(value);
  SmallVector<int64_t> shape(shapeOf(value));
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] +=
        low[i] + high[i] + std::max<int64_t>(shape[i] - 1, 0) * interior[i];
  return create<PadOp>(
      RankedTensorType::get(shape, element), value, splat({}, element, 0.0),
      builder.getDenseI64ArrayAttr(low), builder.getDenseI64ArrayAttr(high),
      llvm::all_of(interior, isZero) ? DenseI64ArrayAttr()
                                     : builder.getDenseI64ArrayAttr(interior),
      PadModeAttr::get(builder.getContext(), PadMode::constant));
}

Value OpEmitter::concat(ValueRange values, int64_t axis) {
  if (values.size() == 1)
    return values.front();
  SmallVector<int64_t> shape(shapeOf(values.front()));
  for (Value value : values.drop_front())
    shape[axis] += shapeOf(value)[axis];
  return create<ConcatOp>(
      RankedTensorType::get(shape, getElementTypeOrSelf(values.front())),
      values, builder.getI64IntegerAttr(axis));
}
