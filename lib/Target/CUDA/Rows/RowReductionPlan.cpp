//===- RowReductionPlan.cpp - analysis of row reductions ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowReductionPlan.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

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

//===----------------------------------------------------------------------===//
// Column sums of row kernels
//
// Finds sums over rows (as in the gradient of a norm's scale and bias) and
// replaces them by their summands in the row form.
//===----------------------------------------------------------------------===//

/// Returns the number of leading dimensions of its operand that a reducing op
/// preserves if it reduces all others; else 0.
static int64_t rowDimensions(Operation *op) {
  auto reduction = dyn_cast<ReductionOpInterface>(op);
  if (!reduction || isa<GroupNormOp, InstanceNormOp>(op))
    return 0;
  SmallVector<int64_t> axes = reduction.getReductionAxes();
  auto rank = static_cast<int64_t>(shapeOf(op->getOperand(0)).size());
  int64_t first = rank - static_cast<int64_t>(axes.size());
  return !axes.empty() && axes.front() == first ? first : 0;
}

/// Returns true if `op` sums a tensor of `shape` over its first `rows`
/// dimensions, or over all.
static bool isSumOverRows(Operation *op, ArrayRef<int64_t> shape,
                          int64_t rows) {
  if (!isa<ReduceSumOp, ReduceMeanOp>(op) ||
      shapeOf(op->getOperand(0)) != shape)
    return false;
  Type type = accumulatorType(op);
  if (!type.isF32() && !type.isF64())
    return false;
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  return (axes.size() == static_cast<size_t>(rows) ||
          axes.size() == shape.size()) &&
         axes.back() == static_cast<int64_t>(axes.size()) - 1;
}

/// Returns the backward slice of `value`, including itself, up to `stops`.
static llvm::SetVector<Operation *>
madeFrom(Value value, const llvm::SmallPtrSetImpl<Operation *> &stops) {
  llvm::SetVector<Operation *> ops;
  if (Operation *op = value.getDefiningOp())
    ops.insert(op);
  for (size_t i = 0; i < ops.size(); ++i)
    if (!stops.contains(ops[i]))
      for (Value operand : ops[i]->getOperands())
        if (Operation *op = operand.getDefiningOp())
          ops.insert(op);
  return ops;
}

/// Returns false if the sums are used other than for results.
bool RowReductionPlan::findColumnSums(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  ArrayRef<int64_t> shape;
  int64_t rows = 0;
  for (Operation &op : block)
    if (rows == 0 && (rows = rowDimensions(&op)))
      shape = shapeOf(op.getOperand(0));
  if (rows == 0)
    return true;
  llvm::SmallPtrSet<Operation *, 8> sums;
  for (Operation &op : block)
    if (isSumOverRows(&op, shape, rows))
      sums.insert(&op);
  if (sums.empty())
    return true;

  auto isSum = [&](Operation *op) { return sums.contains(op); };
  for (auto [number, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    llvm::SetVector<Operation *> ops = madeFrom(value, sums);
    auto found = llvm::find_if(ops, isSum);
    if (found == ops.end())
      continue;
    // A single sum, and elementwise ops on it.
    Operation *sum = *found;
    int64_t count = elementCount(sum->getResult(0));
    bool isPlain = llvm::all_of(ops, [&](Operation *op) {
      return op == sum || isa<ConstantOp, ReshapeOp>(op) ||
             (!isSum(op) && isa<ElementwiseOpInterface>(op));
    });
    if (!isPlain || elementCount(value) != count)
      return false;
    auto *known = llvm::find_if(sumsOverRows, [&](const RowColumnSum &other) {
      return other.op == sum;
    });
    if (known == sumsOverRows.end()) {
      if (llvm::any_of(madeFrom(sum->getOperand(0), sums), isSum))
        return false;
      bool isPerColumn =
          cast<ReductionOpInterface>(sum).getReductionAxes().size() !=
          shape.size();
      sumsOverRows.push_back({sum, {}, isPerColumn, Value()});
      known = &sumsOverRows.back();
    }
    known->results.push_back(number);
  }
  return true;
}

/// Replaces column sums among the copy's results by their summands, after the
/// other results.
void RowReductionPlan::takeColumnSums(func::FuncOp kernel, IRMapping &mapping) {
  if (columnSums().empty())
    return;
  Block &block = copy->getBody().front();
  Operation *terminator = block.getTerminator();
  SmallVector<Value> values;
  for (auto [number, value] : llvm::enumerate(terminator->getOperands()))
    if (llvm::none_of(columnSums(), [&](const RowColumnSum &sum) {
          return llvm::is_contained(sum.results, number);
        }))
      values.push_back(value);
  for (const RowColumnSum &sum : columnSums())
    values.push_back(mapping.lookup(sum.op->getOperand(0)));
  terminator->setOperands(values);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (&op != terminator && op.use_empty())
      op.erase();
  copy->setFunctionType(FunctionType::get(kernel.getContext(),
                                          block.getArgumentTypes(),
                                          TypeRange(ValueRange(values))));
}

//===----------------------------------------------------------------------===//
// Vector width of row kernels
//===----------------------------------------------------------------------===//

/// Returns true if vectors of `lanes` at multiples of `lanes` are aligned in
/// all memory that `tensor` is computed from.
static bool isAligned(const ElementEmitter &emitter, Value tensor,
                      int64_t lanes, llvm::DenseSet<Value> &visited) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  if (shape.empty() || shape.back() == 1 || !visited.insert(tensor).second)
    return true;
  Operation *op = tensor.getDefiningOp();
  bool divides = shape.back() % lanes == 0;
  if (emitter.memoryOf(tensor))
    return divides;
  if (!op || emitter.isBound(tensor))
    return true;
  auto operand = [&](Value value) {
    return isAligned(emitter, value, lanes, visited);
  };
  if (std::optional<Access> access = accessOf(op))
    return (access->empty() || access->back().offset % lanes == 0) &&
           operand(op->getOperand(0));
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](ConstantOp) { return divides; })
      .Case<IotaOp>([&](auto) { return true; })
      .Case([&](ReshapeOp reshape) {
        if (emitter.memoryOf(reshape.getInput()))
          return divides;
        return operand(reshape.getInput());
      })
      .Case([&](PadOp pad) {
        return pad.getLow().back() == 0 &&
               shapeOf(pad.getInput()).back() == shape.back() &&
               operand(pad.getInput());
      })
      .Case<GatherOp, GatherNdOp>(
          [&](auto move) { return operand(move.getInput()); })
      .Case<ConcatOp, ElementwiseOpInterface>(
          [&](auto) { return llvm::all_of(op->getOperands(), operand); })
      .Default([](Operation *) { return false; });
}

/// Returns true if `op` preserves aligned vectors of its input.
static bool movesVectors(Operation *op, int64_t lanes) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                    to = shapeOf(op->getResult(0));
  if (from.empty() || to.empty() || from.back() % lanes || to.back() % lanes)
    return false;
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transpose.getPermutation().back() + 1 ==
           static_cast<int64_t>(from.size());
  return isa<ReshapeOp>(op) || from.back() == to.back();
}

void RowReductionPlan::findLanes() {
  OpBuilder builder(copy->getContext());
  ElementEmitter emitter(builder, copy->getLoc(), cudaElementTarget());
  for (BlockArgument argument : copy->getArguments())
    emitter.bindMemory(argument, argument);
  SmallVector<Value> tensors;
  for (Operation *op : rows.ops) {
    emitter.bindSource(op->getResult(0), {});
    llvm::append_range(tensors, op->getOperands());
  }
  for (const RowResult &result : results()) {
    tensors.push_back(result.row);
    if (!result.movement.empty())
      emitter.bindSource(result.moved(), {});
    if (result.computed() != result.row)
      tensors.push_back(result.computed());
  }
  for (const RowColumnSum &sum : columnSums()) {
    tensors.push_back(sum.operand);
    carried = std::max(carried,
                       bytesPerElement(carriedType(accumulatorType(sum.op))));
  }
  auto isResult = [&](Value value) {
    return llvm::any_of(results(), [&](const RowResult &result) {
      return result.computed() == value;
    });
  };

  // 16 bytes of the widest full-shape tensor in memory, 32 of the widest value.
  // Per-column tensors, such as a norm's scale, stay in caches and may need two
  // loads.
  int64_t stored = 1;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work(tensors);
  auto look = [&](Value value) {
    Type type = getElementTypeOrSelf(value.getType());
    carried = std::max(carried, bytesPerElement(carriedType(type)));
    bool inMemory = isa<BlockArgument>(value) || isResult(value);
    if (inMemory && (elementCount(value) >= count * rowLength ||
                     (rows.isVertical() && isPerRow(value)) ||
                     (isResult(value) && isEarly(value))))
      stored = std::max(stored, bytesPerElement(memoryElementType(type)));
  };
  for (Operation *op : rows.ops)
    if (op->hasTrait<ReducesRows>() && !op->hasTrait<Exact>())
      carried =
          std::max(carried, bytesPerElement(carriedType(accumulatorType(op))));
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if ((isPerRow(value) && !rows.isVertical()) || !seen.insert(value).second)
      continue;
    look(value);
    if (Operation *op = value.getDefiningOp())
      llvm::append_range(work, op->getOperands());
  }
  vectorLanes = std::min(16 / stored, 32 / carried);
  if (rows.isVertical())
    vectorLanes = std::min(vectorLanes, std::max<int64_t>(1, 16 / carried));
  auto fits = [&](Value tensor) {
    llvm::DenseSet<Value> visited;
    if (isPerRow(tensor) && !rows.isVertical())
      return true;
    LaneRange all{0, shapeOf(tensor).empty() ? 1 : shapeOf(tensor).back()};
    return rows.shape.back() % vectorLanes == 0 &&
           isContiguous(emitter, tensor, all) &&
           breaksOf(emitter, tensor).empty() &&
           isAligned(emitter, tensor, vectorLanes, visited);
  };
  auto stores = [&](const RowResult &result) {
    return (isPerRow(result.row) && !rows.isVertical()) ||
           llvm::all_of(
               llvm::concat<Operation *const>(result.movement, result.storing),
               [&](Operation *op) { return movesVectors(op, vectorLanes); });
  };
  while (vectorLanes > 1 &&
         !(llvm::all_of(tensors, fits) && llvm::all_of(results(), stores)))
    vectorLanes /= 2;
}
