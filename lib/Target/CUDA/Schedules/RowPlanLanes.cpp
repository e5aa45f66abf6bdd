//===- RowPlanLanes.cpp - vector width of row kernels ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowReductionPlan.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

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
           emitter.isContiguous(tensor, all) &&
           emitter.breaksOf(tensor).empty() &&
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
