//===- FuseRowReductions.cpp - horizontal fusion of row kernels
//--------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fuses kernels over the same rows, so that a row is read once and buffered:
// softmaxes with sums over these rows, as in a loss and its gradient, and row
// reductions with elementwise ops before and after, as in norm gradients, row
// quantization of a KV cache and expert routing.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/HorizontalFusion.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Returns the axis of a softmax; nullopt for other ops.
static std::optional<int64_t> softmaxAxis(Operation *op) {
  if (auto softmax = dyn_cast_or_null<SoftmaxOp>(op))
    return softmax.getAxis();
  if (auto softmax = dyn_cast_or_null<LogSoftmaxOp>(op))
    return softmax.getAxis();
  return std::nullopt;
}

/// Fuses softmaxes of one tensor, which read its rows once, and sums over
/// functions of a softmax, which need not read them again.
void HorizontalFuser::joinRows() {
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

static bool isRowSum(Operation *op) {
  return isa<ReduceSumOp, ReduceMeanOp>(op);
}

static bool isRowMaximum(Operation *op) { return isa<ReduceMaxOp>(op); }

static bool isRowNumber(Operation *op) {
  return isRowSum(op) || isRowMaximum(op) ||
         isa<ReduceMinOp, ArgmaxOp, ArgminOp, SoftmaxOp, LogSoftmaxOp>(op);
}

/// Returns true if the group only computes values of shape `full`, reductions
/// of its rows along the last dimension by ops that satisfy `joins`, and
/// elementwise functions of both.
static bool isOfRows(FusionGroup *group, ArrayRef<int64_t> full,
                     llvm::function_ref<bool(Operation *)> joins) {
  if (group->isLoose || group->isJoint)
    return false;
  SmallVector<int64_t> numbers(full);
  numbers.back() = 1;
  return llvm::all_of(group->ops, [&](Operation *op) {
    ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    if (isElementwise(op))
      return result == full || result == ArrayRef<int64_t>(numbers);
    return joins(op) &&
           cast<ReductionOpInterface>(op).getReductionAxes() ==
               ArrayRef<int64_t>(full.size() - 1) &&
           shapeOf(op->getOperand(0)) == full &&
           (result == ArrayRef<int64_t>(numbers) || softmaxAxis(op));
  });
}

/// Longer rows do not fit and are read again by each pass: then separate
/// kernels, which split a row over blocks or buffer it for one softmax, are as
/// fast.
static constexpr int64_t kLongestKept = 8192;

bool mpc::canBufferRowChains(ArrayRef<int64_t> shape) {
  return shape.size() >= 2 && shape.back() > 1 && shape.back() <= kLongestKept;
}

/// Limits for sums and maxima: beyond kVeryLong elements at least kFewRows rows
/// are needed.
static constexpr int64_t kVeryLong = 65536, kFewRows = 64;

static bool areManyRows(ArrayRef<int64_t> shape) {
  return shape.size() >= 2 && shape.back() > 1 &&
         (shape.back() <= kVeryLong ||
          productOf(shape.drop_back()) >= kFewRows);
}

void HorizontalFuser::joinRowNumbers() {
  joinRowsOf(isRowNumber, canBufferRowChains);
  joinRowsOf(isRowSum, areManyRows);
}

void HorizontalFuser::joinRowMaxima() { joinRowsOf(isRowMaximum, areManyRows); }

void HorizontalFuser::joinRowsOf(JoinsOp *joins, JoinsShape *joinsShape) {
  for (Operation *op : ops) {
    FusionGroup *group = graph.groupOf(op);
    if (group->anchor != op || !joins(op))
      continue;
    ArrayRef<int64_t> full = shapeOf(op->getOperand(0));
    if (!joinsShape(full) || !isOfRows(group, full, joins))
      continue;
    for (bool grows = true; grows;) {
      grows = false;
      SmallVector<FusionGroup *> others;
      for (Operation *member : group->ops) {
        for (Operation *user : member->getUsers())
          others.push_back(graph.groupOf(user));
        for (Value operand : member->getOperands())
          if (FusionGroup *source = graph.groupOf(operand);
              source && source->anchor && joins(source->anchor))
            others.push_back(source);
      }
      for (FusionGroup *other : others)
        if (other && other != group && !other->ops.empty() &&
            isOfRows(other, full, joins) && !isFull(group, other) &&
            graph.merge(group, other)) {
          group->kind = FusionKind::row;
          grows = true;
          break;
        }
    }
  }
}
