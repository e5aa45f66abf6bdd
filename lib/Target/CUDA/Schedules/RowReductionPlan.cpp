//===- RowReductionPlan.cpp - analysis of row reductions
//---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowReductionPlan.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Thread group
//===----------------------------------------------------------------------===//

tile::ThreadMappingAttr RowThreadMapping::team(const RowReductionPlan &plan,
                                               int64_t firstBlock) const {
  return tile::ThreadMappingAttr::get(
      plan.function().getContext(), group, items, vector, steps, splits, rounds,
      groups, firstBlock, keep, sums, plan.form().isVertical(), everyBlock);
}

//===----------------------------------------------------------------------===//
// Buffered values
//===----------------------------------------------------------------------===//

namespace {
/// Collects the full-shape tensors that a pass over the row reads.
class Reach {
public:
  Reach(const RowPattern &form, const llvm::DenseSet<Value> &stops)
      : form(form), stops(stops) {}

  void visit(Value tensor) {
    if (shapeOf(tensor) != ArrayRef<int64_t>(form.shape) ||
        // With extents of 1 a per-row tensor may have the full shape.
        form.isPerRow(tensor) || !full.insert(tensor))
      return;
    Operation *op = tensor.getDefiningOp();
    if (!op || stops.contains(tensor))
      return;
    if (!isa<ElementwiseOpInterface>(op) && !llvm::is_contained(form.ops, op))
      return moves(op);
    for (Value operand : op->getOperands())
      visit(operand);
  }

  /// Tensors read at the current position.
  llvm::SetVector<Value> full;
  /// Tensors (also) read at other positions.
  llvm::DenseSet<Value> moved;

private:
  void moves(Operation *op) {
    for (Value operand : op->getOperands())
      if (moved.insert(operand).second && operand.getDefiningOp())
        moves(operand.getDefiningOp());
  }

  const RowPattern &form;
  const llvm::DenseSet<Value> &stops;
};
} // namespace

void RowReductionPlan::findBuffered() {
  // One pass per reducing op, and a last one for the stores.
  SmallVector<SmallVector<Value>> walks;
  for (Operation *op : rows.ops)
    walks.push_back({op->getOperand(0)});
  for (const RowResult &result : results())
    if (isEarly(result.row))
      walks.front().push_back(result.row);
  walks.emplace_back();
  for (const RowResult &result : results())
    if (!isEarly(result.row) && !isPerRow(result.row))
      walks.back().push_back(result.row);
  sumsEarly = walks.back().empty() &&
              llvm::all_of(columnSums(), [&](const RowColumnSum &sum) {
                return isEarly(sum.operand);
              });
  for (const RowColumnSum &sum : columnSums())
    (sumsEarly ? walks.front() : walks.back()).push_back(sum.operand);
  oneWalk = walks.back().empty() && columnSums().empty() &&
            llvm::all_of(rows.ops, [&](Operation *op) {
              return isReducing(op) && isEarly(op->getOperand(0));
            });
  if (oneWalk)
    return;

  auto reach = [&](size_t walk, const llvm::DenseSet<Value> &stops) {
    Reach reached(rows, stops);
    for (Value tensor : walks[walk])
      reached.visit(tensor);
    return reached;
  };
  llvm::DenseSet<Value> stops, moved = readBeside;
  for (size_t walk = 0; walk < walks.size(); ++walk)
    for (Value tensor : reach(walk, {}).moved)
      moved.insert(tensor);
  auto keep = [&](Value tensor, size_t walk) {
    if (moved.contains(tensor) || tensor.getDefiningOp<ConstantOp>() ||
        !stops.insert(tensor).second)
      return;
    keptTensors.push_back({tensor, walk});
  };
  // Inputs of ops that read them more than once.
  for (auto [walk, op] : llvm::enumerate(rows.ops)) {
    Value input = op->getOperand(0);
    bool again = !isReducing(op);
    for (size_t later = walk + 1; later < walks.size() && !again; ++later)
      again = reach(later, stops).full.contains(input);
    if (again)
      keep(input, walk);
  }
  // Other tensors read in several passes.
  llvm::MapVector<Value, SmallVector<size_t>> readers;
  for (size_t walk = 0; walk < walks.size(); ++walk) {
    // Buffered tensors are computed in their first pass.
    llvm::DenseSet<Value> known;
    for (auto [tensor, first] : keptTensors)
      if (first < walk)
        known.insert(tensor);
    for (Value tensor : reach(walk, known).full)
      if (!known.contains(tensor) && !stops.contains(tensor) &&
          (!tensor.getDefiningOp() ||
           (!isa<ElementwiseOpInterface>(tensor.getDefiningOp()) &&
            !llvm::is_contained(rows.ops, tensor.getDefiningOp()))))
        readers[tensor].push_back(walk);
  }
  for (auto &[tensor, by] : readers)
    if (by.size() > 1)
      keep(tensor, by.front());
}

SmallVector<Type> RowReductionPlan::partials() const {
  SmallVector<Type> types;
  for (Operation *op : rows.ops)
    llvm::append_range(types, partialTypes(op, rowLength));
  return types;
}

SmallVector<tile::AccumulatorsType> RowReductionPlan::sumTypes() const {
  SmallVector<tile::AccumulatorsType> types;
  for (const RowColumnSum &sum : columnSums())
    types.push_back(tile::AccumulatorsType::get(
        sum.op->getContext(), sum.isPerColumn ? rowLength : 1,
        carriedType(accumulatorType(sum.op))));
  return types;
}

int64_t RowReductionPlan::keptBytes() const {
  int64_t bytes = 0;
  for (auto [tensor, walk] : keptTensors)
    bytes +=
        bytesPerElement(carriedType(getElementTypeOrSelf(tensor.getType())));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

/// Returns true if `tensor` depends on a reducing op.
static bool dependsOnRows(Value tensor, llvm::DenseSet<Value> &visited) {
  Operation *op = tensor.getDefiningOp();
  if (!op || !visited.insert(tensor).second)
    return false;
  return isa<ReductionOpInterface>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return dependsOnRows(operand, visited);
         });
}

static bool dependsOnRows(Value tensor) {
  llvm::DenseSet<Value> visited;
  return dependsOnRows(tensor, visited);
}

static bool isMovement(Operation *op) {
  auto slice = dyn_cast_or_null<SliceOp>(op);
  return isa_and_nonnull<ReshapeOp, TransposeOp>(op) ||
         (slice && llvm::all_of(slice.getStrideValues(),
                                [](int64_t stride) { return stride == 1; }));
}

/// Collects the chain of data movement ops that ends in `value` and returns its
/// source.
static Value takeMovement(Value value, SmallVectorImpl<Operation *> &movement) {
  for (; isMovement(value.getDefiningOp());
       value = value.getDefiningOp()->getOperand(0))
    movement.insert(movement.begin(), value.getDefiningOp());
  return value;
}

/// Finds data movement after the row computation: a result may be elementwise
/// in a moved tensor, and be moved itself.
LogicalResult RowReductionPlan::findMovement(RowResult &result) const {
  SmallVector<Operation *> last;
  Value computed = takeMovement(result.result, last);
  FailureOr<Value> moved = findMoved(computed);
  if (failed(moved))
    return failure();
  if (!*moved) {
    if (last.empty())
      return failure();
    result.movement = std::move(last);
    result.row = computed;
    return success();
  }
  result.storing = std::move(last);
  result.row = takeMovement(*moved, result.movement);
  return success();
}

/// Returns the moved tensor, of the shape of `computed`, in which `computed` is
/// elementwise; null if there is no movement.
FailureOr<Value> RowReductionPlan::findMoved(Value computed) const {
  Value moved;
  bool unmoved = false;
  llvm::SetVector<Value> work;
  work.insert(computed);
  for (size_t i = 0; i < work.size(); ++i) {
    Operation *op = work[i].getDefiningOp();
    if (!op || !dependsOnRows(work[i]))
      continue;
    if (isMovement(op)) {
      if (moved || shapeOf(work[i]) != shapeOf(computed))
        return failure();
      moved = work[i];
    } else if (isa<ElementwiseOpInterface>(op)) {
      work.insert(op->operand_begin(), op->operand_end());
    } else {
      unmoved = true;
    }
  }
  // Elements of both would be needed at two positions at once.
  if (moved && unmoved)
    return failure();
  return moved;
}

LogicalResult RowReductionPlan::analyze(bool withMovement) {
  OpBuilder builder(copy->getContext());
  ElementEmitter emitter(builder, copy->getLoc(), cudaElementTarget());
  for (BlockArgument argument : copy->getArguments())
    emitter.bindMemory(argument, argument);
  rows = RowPattern();
  rows.takesPositions = true;
  rowResults.clear();
  SmallVector<Root> roots;
  ValueRange returned = copy->getBody().front().getTerminator()->getOperands();
  // The results are followed by the operands of column sums.
  ValueRange summed = returned.take_back(columnSums().size());
  for (auto [sum, value] : llvm::zip(sumsOverRows, summed)) {
    sum.operand = value;
    roots.push_back({value, {}});
  }
  llvm::SmallDenseSet<unsigned> ofColumns;
  for (const RowColumnSum &sum : columnSums())
    ofColumns.insert(sum.results.begin(), sum.results.end());
  unsigned number = 0;
  for (Value value : returned.drop_back(columnSums().size())) {
    while (ofColumns.contains(number))
      ++number;
    RowResult result{value, value, number++, {}};
    if (withMovement && failed(findMovement(result)))
      result = {value, value, result.number, {}};
    // Besides the moved tensor, only values that do not depend on a row.
    if (!result.movement.empty()) {
      llvm::SetVector<Value> work;
      work.insert(value);
      for (size_t i = 0; i < work.size(); ++i)
        if (Operation *op = work[i].getDefiningOp();
            op && work[i] != result.moved())
          work.insert(op->operand_begin(), op->operand_end());
      for (Value beside : work)
        if (beside != result.moved())
          readBeside.insert(beside);
    }
    roots.push_back({result.row, {}});
    rowResults.push_back(std::move(result));
  }
  if (roots.empty() || failed(rows.analyze(emitter, roots)))
    return failure();
  return success(columnSums().empty() ||
                 (!rows.isVertical() &&
                  llvm::all_of(columnSums(), [&](const RowColumnSum &sum) {
                    return shapeOf(sum.operand) ==
                               ArrayRef<int64_t>(rows.shape) &&
                           !isPerRow(sum.operand);
                  })));
}

std::unique_ptr<RowReductionPlan> RowReductionPlan::of(func::FuncOp kernel) {
  auto plan = std::make_unique<RowReductionPlan>();
  if (!plan->findColumnSums(kernel))
    return nullptr;
  IRMapping mapping;
  plan->copy = cast<func::FuncOp>(kernel->clone(mapping));
  plan->takeColumnSums(kernel, mapping);
  expandGroupedNorms(plan->function());
  collapseDimensions(plan->function());
  if (failed(plan->analyze(/*withMovement=*/false)) &&
      failed(plan->analyze(/*withMovement=*/true)))
    return nullptr;
  for (auto [dim, extent] : llvm::enumerate(plan->rows.shape))
    (plan->rows.isAxis(dim) ? plan->rowLength : plan->count) *= extent;
  // Empty column sums are stored by another family.
  if (plan->count == 0 && !plan->columnSums().empty())
    return nullptr;
  plan->findBuffered();
  plan->findLanes();
  return plan;
}
