//===- FuseJoin.cpp - kernels that run as one -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Once all kernels have grown, some that stand side by side become one launch
// on a GPU: softmaxes of the same rows with the sums over these rows, as a loss
// and its gradient have them; sums over rows with what they are made of and go
// into, as the gradient of a norm has them; the gradients of a convolution's
// filter and bias; and the small sums that a step ends in, which run beside the
// updates. Sums beside products are in FuseJoinProducts.cpp.
//
//===----------------------------------------------------------------------===//

#include "FuseMovement.h"
#include "FuseRules.h"
#include "OpEmitter.h"

#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Elements that are summed to one by the threads of a block in the time that
/// other blocks renew parameters.
static constexpr int64_t kMostSummed = 512;

/// The axis of a softmax; nullopt for other ops.
static std::optional<int64_t> softmaxAxis(Operation *op) {
  if (auto softmax = dyn_cast_or_null<SoftmaxOp>(op))
    return softmax.getAxis();
  if (auto softmax = dyn_cast_or_null<LogSoftmaxOp>(op))
    return softmax.getAxis();
  return std::nullopt;
}

/// The axes of a sum or mean; empty for other ops.
static ArrayRef<int64_t> summedAxes(Operation *op) {
  if (auto sum = dyn_cast_or_null<ReduceSumOp>(op))
    return sum.getAxes();
  if (auto mean = dyn_cast_or_null<ReduceMeanOp>(op))
    return mean.getAxes();
  return {};
}

/// Softmaxes of one tensor read its rows once; sums over what is made of a
/// softmax need not read it again.
void FuseRules::joinRows() {
  for (Operation *op : ops) {
    std::optional<int64_t> axis = softmaxAxis(op);
    FusionGroup *group = graph.groupOf(op);
    if (!axis || group->anchor != op)
      continue;
    for (Operation *user : op->getOperand(0).getUsers()) {
      FusionGroup *other = graph.groupOf(user);
      if (other && other != group && other->anchor == user &&
          softmaxAxis(user) == axis && !isFull(group, other))
        graph.merge(group, other);
    }
    SmallVector<Operation *> members = group->ops;
    for (Operation *member : members)
      for (Operation *user : member->getUsers()) {
        FusionGroup *sums = graph.groupOf(user);
        if (sums && sums != group && sums->anchor == user &&
            summedAxes(user) == ArrayRef<int64_t>(*axis) &&
            shapeOf(user->getOperand(0)) == group->shape &&
            !isFull(group, sums))
          graph.merge(group, sums);
      }
  }
}

/// Whether the group only computes elements of `full`, the sums over its last
/// dimension, and elements of these.
static bool isOfRows(FusionGroup *group, ArrayRef<int64_t> full) {
  if (group->isLoose || group->isJoint)
    return false;
  SmallVector<int64_t> sums(full);
  sums.back() = 1;
  return llvm::all_of(group->ops, [&](Operation *op) {
    ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    if (isElementwise(op))
      return result == full || result == ArrayRef<int64_t>(sums);
    return summedAxes(op) == ArrayRef<int64_t>(full.size() - 1) &&
           shapeOf(op->getOperand(0)) == full &&
           result == ArrayRef<int64_t>(sums);
  });
}

/// Sums over rows, what is made of the rows with them, and sums of that: the
/// gradient of a norm. Rows are read once and kept.
void FuseRules::joinRowSums() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || summedAxes(op).empty())
      continue;
    ArrayRef<int64_t> full = shapeOf(op->getOperand(0));
    if (full.size() < 2 || full.back() == 1 || !isOfRows(group, full))
      continue;
    for (bool grows = true; grows;) {
      grows = false;
      SmallVector<FusionGroup *> others;
      for (Operation *member : group->ops) {
        for (Operation *user : member->getUsers())
          others.push_back(graph.groupOf(user));
        for (Value operand : member->getOperands())
          if (FusionGroup *source = graph.groupOf(operand);
              source && source->anchor && !summedAxes(source->anchor).empty())
            others.push_back(source);
      }
      for (FusionGroup *other : others)
        if (other && other != group && !other->ops.empty() &&
            isOfRows(other, full) && !isFull(group, other) &&
            graph.merge(group, other)) {
          group->kind = FusionKind::row;
          grows = true;
          break;
        }
    }
  }
}

/// Takes the cast, where there is one, that widens what the group reads through
/// memory.
void FuseRules::takeWidening(FusionGroup *group, CastOp wide) {
  FusionGroup *widened = wide ? graph.groupOf(wide.getOperation()) : group;
  if (widened->ops.size() == 1)
    graph.merge(group, widened);
  else if (widened != group)
    graph.move(wide, group);
}

/// Takes the cast, where it is a kernel of its own, that alone reads the
/// group's `value` and narrows it.
void FuseRules::takeNarrowing(FusionGroup *group, Value value) {
  auto cast =
      value.hasOneUse() ? dyn_cast<CastOp>(*value.user_begin()) : CastOp();
  FusionGroup *own = cast ? graph.groupOf(cast.getOperation()) : nullptr;
  if (own && own->ops.size() == 1 && !own->isJoint && isNarrowing(cast))
    graph.merge(group, own);
}

/// Whether `op` sums f32 over all dimensions of an image but its channels.
static bool sumsChannels(ReduceSumOp op, ImageLayout layout) {
  int64_t rank = op.getInput().getType().getRank();
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d)
    if (d != (layout == ImageLayout::channels_last ? rank - 1 : 1))
      axes.push_back(d);
  return op.getAxes() == ArrayRef<int64_t>(axes) && sumsInFloat32(op);
}

/// The kernel of a filter's gradient reads every gradient, so it sums them for
/// the bias as well. It narrows the image that it loads and what it stores.
void FuseRules::joinFilters() {
  for (Operation *op : ops) {
    auto filter = dyn_cast<ConvFilterGradientOp>(op);
    if (!filter)
      continue;
    FusionGroup *group = graph.groupOf(op);
    if (auto cast = filter.getInput().getDefiningOp<CastOp>())
      if (FusionGroup *source = graph.groupOf(cast.getOperation());
          convertsInput(cast) && source->ops.size() == 1 &&
          graph.isReadOnlyBy(source, group))
        graph.merge(group, source);
    if (!filter.getResult().getType().getElementType().isF32() ||
        elementCount(filter.getInput()) == 0)
      continue;
    takeNarrowing(group, filter.getResult());

    SmallVector<Operation *> readers(filter.getGradient().getUsers());
    for (size_t i = 0; i < readers.size(); ++i) {
      if (auto cast = dyn_cast<CastOp>(readers[i]);
          cast && isWidening(cast) && cast->hasOneUse())
        readers.push_back(*cast->user_begin());
      auto sum = dyn_cast<ReduceSumOp>(readers[i]);
      if (!sum || !sumsChannels(sum, filter.getLayout()))
        continue;
      auto cast = sum.getInput() == filter.getGradient()
                      ? CastOp()
                      : sum.getInput().getDefiningOp<CastOp>();
      FusionGroup *sums = graph.groupOf(sum.getOperation());
      if (!sums || sums->anchor != sum || sums->isJoint ||
          !llvm::all_of(sums->ops,
                        [&](Operation *member) {
                          return member == sum || member == cast;
                        }) ||
          !graph.merge(group, sums))
        continue;
      takeWidening(group, cast);
      takeNarrowing(group, sum.getResult());
      break;
    }
  }
}

/// What is only read in slices the product's kernel stores in parts: the
/// gradients of weights that were multiplied as one.
void FuseRules::joinSlices() {
  for (Operation *op : ops) {
    FusionGroup *slice = graph.groupOf(op);
    if (!isPartOfProduct(op) || slice->anchor || slice->isLoose ||
        slice->ops.size() != 1)
      continue;
    FusionGroup *product = graph.groupOf(op->getOperand(0));
    if (product && product->anchor && !product->isJoint)
      graph.merge(product, slice);
  }
}

/// Whether the group only sums over `axes` of tensors of `shape`, with
/// elementwise ops before and behind.
static bool isOfSums(FusionGroup *group, ArrayRef<int64_t> shape,
                     ArrayRef<int64_t> axes) {
  return !group->isLoose && !group->isJoint &&
         llvm::all_of(group->ops, [&](Operation *op) {
           if (summedAxes(op) == axes)
             return shapeOf(op->getOperand(0)) == shape;
           return isElementwise(op) &&
                  (shapeOf(op->getResult(0)) == shape ||
                   elementCount(op->getResult(0)) < productOf(shape));
         });
}

/// Sums over the same dimensions of what is made of one tensor read it once:
/// the gradients of a batch norm's scale and bias.
void FuseRules::joinEqualSums() {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    ArrayRef<int64_t> axes = summedAxes(op);
    if (axes.empty() || group->anchor != op)
      continue;
    ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
    if (!isOfSums(group, shape, axes))
      continue;
    llvm::SetVector<FusionGroup *> others;
    for (Operation *member : group->ops)
      for (Value operand : member->getOperands())
        if (shapeOf(operand) == shape && graph.groupOf(operand) != group)
          for (Operation *user : operand.getUsers())
            others.insert(graph.groupOf(user));
    for (FusionGroup *other : others)
      if (other && other != group && other->anchor &&
          summedAxes(other->anchor) == axes && isOfSums(other, shape, axes) &&
          !isFull(group, other))
        graph.merge(group, other);
  }
}

/// Sums of few elements whose results the updates alone read, or nothing but
/// the caller, have blocks of their own in the kernel of the updates.
void FuseRules::joinSums() {
  FusionGroup *updates = nullptr;
  for (Operation *op : ops)
    if (FusionGroup *group = graph.groupOf(op);
        group->isJoint && group->kind == FusionKind::update)
      updates = group;
  if (!updates)
    return;
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || summedAxes(op).empty())
      continue;
    int64_t summed = elementCount(op->getOperand(0)) /
                     std::max<int64_t>(elementCount(op->getResult(0)), 1);
    bool isLast = llvm::all_of(group->ops, [&](Operation *member) {
      return llvm::all_of(member->getUsers(), [&](Operation *user) {
        FusionGroup *reader = graph.groupOf(user);
        if (reader == updates)
          return shapeOf(user->getResult(0)) == shapeOf(op->getResult(0));
        return reader == group || !reader;
      });
    });
    if (isLast && summed <= kMostSummed)
      graph.merge(updates, group);
  }
}
