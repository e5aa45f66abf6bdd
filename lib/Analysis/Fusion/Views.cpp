//===- Views.cpp - ops that move nothing ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a slice or concat lies in memory already depends on alignment and on
// who else reads; the fuser, the planner and the verifier must agree about it.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/Views.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

std::optional<int64_t> mpc::contiguousOffset(SliceOp slice) {
  ArrayRef<int64_t> shape = shapeOf(slice.getInput()), sizes = slice.getSizes();
  SmallVector<int64_t> strides = slice.getStrideValues();
  int64_t offset = 0, stride = 1;
  // From the last dimension on: whole dimensions, one part, then single
  // entries.
  bool whole = true;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (!whole && sizes[d] != 1)
      return std::nullopt;
    if (sizes[d] > 1 && strides[d] != 1)
      return std::nullopt;
    if (sizes[d] != shape[d])
      whole = false;
    offset += slice.getOffsets()[d] * stride;
    stride *= shape[d];
  }
  int64_t bytes =
      offset * bytesPerElement(getElementTypeOrSelf(slice.getInput()));
  if (elementCount(slice.getResult()) == 0 || bytes % kBufferAlign != 0)
    return std::nullopt;
  return bytes;
}

bool mpc::isFreeSlice(SliceOp slice) {
  if (!contiguousOffset(slice))
    return false;
  Value source = behindReshapes(slice.getInput());
  if (auto inner = source.getDefiningOp<SliceOp>())
    return isFreeSlice(inner);
  return isa<OpResult>(source) && !source.getDefiningOp<mpc::ConstantOp>();
}

bool mpc::isFreeConcat(ConcatOp concat) {
  ArrayRef<int64_t> shape = shapeOf(concat.getResult());
  if (concat.getInputs().size() < 2 ||
      productOf(shape.take_front(concat.getAxis())) != 1)
    return false;
  SmallPtrSet<Value, 8> sources;
  for (Value input : concat.getInputs()) {
    int64_t bytes = byteCount(input.getType());
    bool last = input == concat.getInputs().back();
    if (bytes == 0 || (!last && bytes % kBufferAlign != 0))
      return false;
    Value source = behindReshapes(input);
    Operation *producer = source.getDefiningOp();
    if (!producer || isa<mpc::ConstantOp, ConcatOp, SliceOp>(producer) ||
        !sources.insert(source).second)
      return false;
    // A value can lie in one concat's buffer only: the first that reads it.
    SmallVector<Value> names = {source};
    for (size_t i = 0; i < names.size(); ++i)
      for (Operation *user : names[i].getUsers()) {
        if (auto reshape = dyn_cast<ReshapeOp>(user))
          names.push_back(reshape.getResult());
        else if (auto other = dyn_cast<ConcatOp>(user);
                 other && other != concat && other->isBeforeInBlock(concat))
          return false;
      }
  }
  return true;
}

bool mpc::isView(Operation *op) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return isFreeSlice(slice);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return isFreeConcat(concat);
  return isa<ReshapeOp>(op);
}
