//===- FuseColumnSums.cpp - column sums in row kernels
//-----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A row-wise kernel, which has rows in registers, also reduces over rows: the
// gradient of a norm's bias together with that of its input, the mean of a loss
// together with the norm it uses. A separate kernel would read all rows again.
//
//===----------------------------------------------------------------------===//

#include "HorizontalFuser.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;

/// Returns how many of its leading dimensions `op` sums over, in f32 or f64:
/// all, or at least one before those that remain. 0 for other ops.
static int64_t summedDimensions(Operation *op) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op))
    return 0;
  auto reduction = cast<ReductionOpInterface>(op);
  Type type = reduction.getAccumulateType();
  SmallVector<int64_t> axes = reduction.getReductionAxes();
  auto count = static_cast<int64_t>(axes.size());
  bool isLeading = count > 0 && axes.back() == count - 1;
  return isLeading && (type.isF32() || type.isF64()) ? count : 0;
}

/// Returns the number of dimensions of `shape` before those that `op` reduces,
/// if it works on whole rows; 0 for other ops.
static int64_t dimensionsOfRows(Operation *op, ArrayRef<int64_t> shape) {
  if (op->getNumOperands() == 0 || shapeOf(op->getOperand(0)) != shape)
    return 0;
  if (auto norm = dyn_cast<NormGradientOp>(op)) {
    // A scale with broadcast dimensions is summed over other dimensions, and
    // rows of several dimensions are flattened.
    auto last = static_cast<int64_t>(shape.size()) - 1;
    bool fits = static_cast<int64_t>(norm.getAxis()) == last &&
                elementCount(norm.getScale()) == shape.back();
    return fits ? last : 0;
  }
  if (!op->hasTrait<MapsRows>() && !op->hasTrait<ReducesRows>())
    return 0;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  auto first = static_cast<int64_t>(shape.size() - axes.size());
  return !axes.empty() && axes.front() == first ? first : 0;
}

/// Returns true if `op` compares columns with a row's class, from at most one
/// number per row.
static bool isOfClasses(Operation *op) { return isa<IotaOp, OneHotOp>(op); }

/// Returns the number of dimensions before the rows of `shape` if the group
/// works on these rows and contains otherwise only elementwise ops and sums
/// over rows; else 0.
static int64_t dimensionsOfRows(FusionGroup *group, ArrayRef<int64_t> shape) {
  if (group->isLoose || group->isJoint || !group->anchor)
    return 0;
  int64_t rows = dimensionsOfRows(group->anchor, shape);
  auto length = rows ? productOf(shape.drop_front(rows)) : 0;
  bool fits =
      length > 1 && llvm::all_of(group->ops, [&](Operation *op) {
        if (isElementwise(op) || isOfClasses(op) ||
            dimensionsOfRows(op, shape) == rows)
          return true;
        int64_t summed = summedDimensions(op);
        return summed != 0 && shapeOf(op->getOperand(0)) == shape &&
               (summed == rows || summed == static_cast<int64_t>(shape.size()));
      });
  return fits ? rows : 0;
}

/// Returns the values of `shape` that the group reads or, on request, computes.
static llvm::SmallPtrSet<Value, 8> valuesOf(const FusionGraph &graph,
                                            FusionGroup *group,
                                            ArrayRef<int64_t> shape,
                                            bool withComputed) {
  llvm::SmallPtrSet<Value, 8> values;
  for (Operation *op : group->ops) {
    for (Value operand : op->getOperands())
      if (shapeOf(operand) == shape && graph.groupOf(operand) != group)
        values.insert(operand);
    for (Value result : op->getResults())
      if (withComputed && shapeOf(result) == shape)
        values.insert(result);
  }
  return values;
}

/// Returns true if `reader` reads a disallowed result of `maker`.
static bool readsFrom(const FusionGraph &graph, FusionGroup *reader,
                      FusionGroup *maker,
                      llvm::function_ref<bool(Value)> isAllowed) {
  return llvm::any_of(reader->ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return graph.groupOf(operand) == maker && !isAllowed(operand);
    });
  });
}

/// Returns true if the group of `sum` only computes the input of the sum, the
/// sum, and its consumers.
static bool isPlainSum(FusionGroup *group, Operation *sum) {
  if (group->anchor != sum || group->isJoint)
    return false;
  ArrayRef<int64_t> shape = shapeOf(sum->getOperand(0));
  llvm::SmallPtrSet<Operation *, 8> after = {sum};
  return llvm::all_of(group->ops, [&](Operation *op) {
    if (op == sum)
      return true;
    ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    bool isAfter = llvm::any_of(op->getOperands(), [&](Value operand) {
      return after.contains(operand.getDefiningOp());
    });
    if (isAfter)
      after.insert(op);
    return isOfClasses(op) ||
           (isElementwise(op) &&
            result == (isAfter ? shapeOf(sum->getResult(0)) : shape));
  });
}

/// Returns the row kernels that have the sum's inputs, those with the most
/// first, then norm gradients, which already contain column sums.
SmallVector<FusionGroup *> HorizontalFuser::rowsOfSum(Operation *sum) const {
  FusionGroup *group = graph.groupOf(sum);
  int64_t summed = summedDimensions(sum);
  if (summed == 0)
    return {};
  ArrayRef<int64_t> shape = shapeOf(sum->getOperand(0));
  if (elementCount(sum->getOperand(0)) == 0 || !isPlainSum(group, sum))
    return {};
  llvm::SmallPtrSet<Value, 8> inputs =
      valuesOf(graph, group, shape, /*withComputed=*/false);
  llvm::SetVector<FusionGroup *> candidates;
  for (Operation *op : group->ops)
    for (Value input : op->getOperands()) {
      if (!inputs.contains(input))
        continue;
      candidates.insert(graph.groupOf(input));
      for (Operation *user : input.getUsers())
        candidates.insert(graph.groupOf(user));
    }
  SmallVector<std::pair<int64_t, FusionGroup *>> kernels;
  for (FusionGroup *candidate : candidates) {
    if (!candidate || candidate == group)
      continue;
    int64_t rows = dimensionsOfRows(candidate, shape);
    if (rows == 0 ||
        (summed != rows && summed != static_cast<int64_t>(shape.size())) ||
        isFull(candidate, group))
      continue;
    // Column sums are complete after the last row: no row and no other sum may
    // depend on them.
    auto isOfRow = [&](Value value) {
      return shapeOf(value) == shape ||
             elementCount(value) == productOf(shape.take_front(rows));
    };
    if (readsFrom(graph, candidate, group, [](Value) { return false; }) ||
        readsFrom(graph, group, candidate, isOfRow))
      continue;
    int64_t shared =
        llvm::count_if(valuesOf(graph, candidate, shape, /*withComputed=*/true),
                       [&](Value value) { return inputs.contains(value); });
    kernels.push_back(
        {2 * shared + isa<NormGradientOp>(candidate->anchor), candidate});
  }
  llvm::sort(kernels, [](const auto &a, const auto &b) {
    return std::pair(-a.first, a.second->last) <
           std::pair(-b.first, b.second->last);
  });
  return llvm::to_vector(llvm::make_second_range(kernels));
}

/// Fuses sums over all rows, per column or of everything, into the kernel that
/// reads the rows.
void HorizontalFuser::joinColumns() {
  for (Operation *op : ops) {
    SmallVector<FusionGroup *> kernels = rowsOfSum(op);
    auto *taken = llvm::find_if(kernels, [&](FusionGroup *kernel) {
      return graph.merge(kernel, graph.groupOf(op));
    });
    if (taken == kernels.end())
      continue;
    FusionGroup *group = *taken;
    group->kind = FusionKind::row;
    takeNarrowing(group, op->getResult(0));
  }
}
