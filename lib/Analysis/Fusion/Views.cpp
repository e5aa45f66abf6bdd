//===- Views.cpp - zero-copy views of buffers -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a slice or concat is a view depends on alignment and on its readers;
// the fuser, the planner and the verifier must agree about it.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/Views.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mpc;

std::optional<int64_t> mpc::contiguousOffset(SliceOp slice) {
  ArrayRef<int64_t> shape = shapeOf(slice.getInput()), sizes = slice.getSizes();
  SmallVector<int64_t> strides = slice.getStrideValues();
  int64_t offset = 0, stride = 1;
  // From the last dimension: whole ones, one partial, then single entries.
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

/// Returns true if the function of `terminator` returns `value` in place of
/// `argument`, and nowhere else.
static bool returnsInPlace(Operation *terminator, Value value,
                           BlockArgument argument) {
  auto function =
      dyn_cast_if_present<FunctionOpInterface>(terminator->getParentOp());
  if (!function || llvm::count(terminator->getOperands(), value) != 1)
    return false;
  unsigned number = llvm::find(terminator->getOperands(), value).getIndex();
  auto alias =
      function.getResultAttrOfType<IntegerAttr>(number, MpcDialect::kAliasAttr);
  return alias && alias.getInt() == argument.getArgNumber();
}

BlockArgument mpc::inPlaceAppendArgument(ConcatOp concat) {
  auto kept = concat.getInputs().front().getDefiningOp<SliceOp>();
  auto argument =
      kept ? dyn_cast<BlockArgument>(kept.getInput()) : BlockArgument();
  if (!argument || !argument.hasOneUse() || !kept->hasOneUse() ||
      argument.getOwner() != concat->getBlock() ||
      argument.getType() != concat.getType() ||
      contiguousOffset(kept).value_or(-1) != 0 ||
      byteCount(kept.getType()) % kBufferAlign != 0 ||
      !returnsInPlace(concat->getBlock()->getTerminator(), concat.getResult(),
                      argument))
    return {};
  return argument;
}

/// Returns true if the slice, directly or after reshapes, is appended to an
/// argument: a kernel has to write it there.
static bool isAppended(SliceOp slice) {
  Operation *op = slice;
  while (op->hasOneUse()) {
    OpOperand &use = *op->use_begin();
    if (auto concat = dyn_cast<ConcatOp>(use.getOwner()))
      return use.getOperandNumber() > 0 && inPlaceAppendArgument(concat);
    op = use.getOwner();
    if (!isa<ReshapeOp>(op))
      return false;
  }
  return false;
}

bool mpc::isFreeSlice(SliceOp slice) {
  if (!contiguousOffset(slice) || isAppended(slice))
    return false;
  if (isa<BlockArgument>(slice.getInput())) {
    auto concat = slice->hasOneUse() ? dyn_cast<ConcatOp>(*slice->user_begin())
                                     : ConcatOp();
    return concat && slice.getResult() == concat.getInputs().front() &&
           isFreeConcat(concat) && inPlaceAppendArgument(concat);
  }
  Value source = sourceOfReshapes(slice.getInput());
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
  bool isAppend = bool(inPlaceAppendArgument(concat));
  for (Value input : concat.getInputs().drop_front(isAppend)) {
    int64_t bytes = byteCount(input.getType());
    bool last = input == concat.getInputs().back();
    if (bytes == 0 || (!last && bytes % kBufferAlign != 0))
      return false;
    Value source = sourceOfReshapes(input);
    Operation *producer = source.getDefiningOp();
    auto slice = dyn_cast_if_present<SliceOp>(producer);
    if (!producer || isa<mpc::ConstantOp, ConcatOp>(producer) ||
        (slice && !(isAppend && isAppended(slice))) ||
        !sources.insert(source).second)
      return false;
    // A value can alias one concat's buffer only: that of its first reader.
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

bool mpc::concatenatesSmallLoops(ConcatOp concat) {
  constexpr size_t kFewParts = 16;
  constexpr int64_t kSmallBytes = 4096;
  return concat.getInputs().size() > kFewParts &&
         llvm::all_of(concat.getInputs(), [](Value input) {
           Operation *producer = input.getDefiningOp();
           return producer && isElementwise(producer) && input.hasOneUse() &&
                  byteCount(input.getType()) <= kSmallBytes;
         });
}

bool mpc::isView(Operation *op) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return isFreeSlice(slice);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return isFreeConcat(concat);
  return isa<ReshapeOp>(op);
}
