//===- VjpBuilder.cpp - builder for derivative rules ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

using namespace mlir;
using namespace mpc;

SmallVector<int64_t> mpc::axesFrom(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, std::max(begin, end)));
}

Type VjpBuilder::wideType(Type element) const {
  return element.getIntOrFloatBitWidth() < 32
             ? Float32Type::get(element.getContext())
             : element;
}

void VjpBuilder::give(unsigned operand, Value value) {
  if (!needed[operand] || !value)
    return;
  Value target = op->getOperand(operand);
  given[operand] = cast(sumTo(value, shapeOf(target)), elementOf(target));
}

/// Accumulator type for sums: f32 for 16-bit values.
static TypeAttr accumulateType(VjpBuilder &vjp, Value value) {
  Type element = vjp.elementOf(value), wide = vjp.wideType(element);
  return wide == element ? TypeAttr() : TypeAttr::get(wide);
}

template <typename OpTy>
static Value reduce(VjpBuilder &vjp, Value value, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return value;
  SmallVector<int64_t> shape(shapeOf(value));
  for (int64_t axis : axes)
    shape[axis] = 1;
  return vjp.create<OpTy>(RankedTensorType::get(shape, vjp.elementOf(value)),
                          value, vjp.builder.getDenseI64ArrayAttr(axes),
                          vjp.builder.getUnitAttr(),
                          accumulateType(vjp, value));
}

Value VjpBuilder::sum(Value value, ArrayRef<int64_t> axes) {
  return reduce<ReduceSumOp>(*this, value, axes);
}

Value VjpBuilder::mean(Value value, ArrayRef<int64_t> axes) {
  return reduce<ReduceMeanOp>(*this, value, axes);
}

Value VjpBuilder::sumTo(Value value, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = shapeOf(value);
  if (from == shape)
    return value;
  int64_t added = from.size() - shape.size();
  assert(added >= 0 && "a sum has no more dimensions than its terms");
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    if (i < added || (shape[i - added] == 1 && from[i] != 1))
      axes.push_back(i);
  SmallVector<int64_t> left;
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    if (!llvm::is_contained(axes, i))
      left.push_back(from[i]);
  Value summed =
      create<ReduceSumOp>(RankedTensorType::get(left, elementOf(value)), value,
                          builder.getDenseI64ArrayAttr(axes), UnitAttr(),
                          accumulateType(*this, value));
  return reshape(summed, shape);
}

Value VjpBuilder::broadcastTo(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return create<BroadcastOp>(RankedTensorType::get(shape, elementOf(value)),
                             value);
}

Value VjpBuilder::perChannel(Value value, Value like) {
  SmallVector<int64_t> shape(rankOf(like) - 1, 1);
  shape[0] = shapeOf(value)[0];
  return reshape(value, shape);
}
