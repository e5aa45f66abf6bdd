//===- RepeatedHeads.cpp - repeated KV heads ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Detects repetition through data movement: an extent-1 dimension is broadcast
// or concatenated with itself, then reshaped into the previous dimension.
//
//===----------------------------------------------------------------------===//

#include "RepeatedHeads.h"

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

/// Returns the dimension of the reshape's input that has the same stride as
/// `axis` of its result; nullopt if the dimensions do not align.
static std::optional<int64_t> axisBehind(ReshapeOp reshape, int64_t axis) {
  ArrayRef<int64_t> from = shapeOf(reshape.getInput()), to = shapeOf(reshape);
  int64_t inside = productOf(to.drop_front(axis + 1)), counted = 1;
  auto at = static_cast<int64_t>(from.size()) - 1;
  for (; at >= 0 && counted < inside; --at)
    counted *= from[at];
  while (at >= 0 && from[at] == 1)
    --at;
  if (at < 0 || counted != inside ||
      (from[at] % to[axis] != 0 && to[axis] % from[at] != 0))
    return std::nullopt;
  return at;
}

/// Returns the dimension of the broadcast's input that corresponds to `axis` of
/// its result; negative for a new one.
static int64_t axisBehind(BroadcastOp broadcast, int64_t axis) {
  return axis - static_cast<int64_t>(shapeOf(broadcast).size()) +
         static_cast<int64_t>(shapeOf(broadcast.getInput()).size());
}

static bool widens(BroadcastOp broadcast, int64_t axis) {
  int64_t behind = axisBehind(broadcast, axis);
  return behind < 0 || shapeOf(broadcast.getInput())[behind] == 1;
}

int64_t mpc::repeatCountAlong(Value value, int64_t axis) {
  int64_t extent = shapeOf(value)[axis];
  Operation *op = value.getDefiningOp();
  if (extent <= 1 || !op || llvm::is_contained(shapeOf(value), 0))
    return 1;
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return repeatCountAlong(transpose.getInput(),
                            transpose.getPermutation()[axis]);
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return widens(broadcast, axis)
               ? extent
               : repeatCountAlong(broadcast.getInput(),
                                  axisBehind(broadcast, axis));
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    bool repeats = static_cast<int64_t>(concat.getAxis()) == axis &&
                   static_cast<int64_t>(concat.getInputs().size()) == extent &&
                   llvm::all_equal(concat.getInputs());
    return repeats ? extent : 1;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    if (std::optional<int64_t> behind = axisBehind(reshape, axis))
      return std::gcd(repeatCountAlong(reshape.getInput(), *behind), extent);
  return 1;
}

Value mpc::dropRepeats(OpBuilder &builder, Value value, int64_t axis,
                       int64_t times) {
  if (times == 1)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] /= times;
  Operation *op = value.getDefiningOp();
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Value input = dropRepeats(builder, transpose.getInput(),
                              transpose.getPermutation()[axis], times);
    return TransposeOp::create(builder, op->getLoc(), input,
                               transpose.getPermutation());
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    ValueRange parts = concat.getInputs().take_front(shape[axis]);
    return parts.size() == 1 ? parts.front()
                             : Value(ConcatOp::create(builder, op->getLoc(),
                                                      parts, concat.getAxis()));
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Value input = broadcast.getInput();
    if (!widens(broadcast, axis))
      input = dropRepeats(builder, input, axisBehind(broadcast, axis), times);
    return input.getType() == type.clone(shape)
               ? input
               : Value(BroadcastOp::create(builder, op->getLoc(),
                                           type.clone(shape), input));
  }
  auto reshape = cast<ReshapeOp>(op);
  Value input = dropRepeats(builder, reshape.getInput(),
                            *axisBehind(reshape, axis), times);
  return ReshapeOp::create(builder, op->getLoc(), type.clone(shape), input);
}
