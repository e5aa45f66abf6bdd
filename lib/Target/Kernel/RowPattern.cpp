//===- RowPattern.cpp - pattern of row kernels ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowPattern.h"

#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

bool mpc::dependsOn(Value value, llvm::function_ref<bool(Operation *)> is) {
  llvm::SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    if (Operation *op = work[i].getDefiningOp()) {
      if (is(op))
        return true;
      work.insert(op->operand_begin(), op->operand_end());
    }
  return false;
}

static bool isRowOp(Operation *op) {
  return op->hasTrait<MapsRows>() || op->hasTrait<ReducesRows>();
}

/// Returns true for ops that work along axes of their own, or on whole tensors.
static bool leavesRows(Operation *op) {
  return llvm::is_contained({FusionClass::Reduction, FusionClass::Scan,
                             FusionClass::Pool, FusionClass::Opaque},
                            fusionClassOf(op));
}

bool RowPattern::alignsWithRows(ArrayRef<int64_t> operand) const {
  SmallVector<int64_t> row = rowShape(/*keepDims=*/true);
  if (operand.size() > row.size())
    return false;
  ArrayRef<int64_t> rowRef(row);
  return operand == rowRef.take_back(operand.size()) &&
         llvm::all_of(rowRef.drop_back(operand.size()),
                      [](int64_t extent) { return extent == 1; });
}

LogicalResult RowPattern::addRowOp(Operation *op) {
  Value input = op->getOperand(0);
  SmallVector<int64_t> own = cast<ReductionOpInterface>(op).getReductionAxes();
  if (ops.empty()) {
    shape.assign(shapeOf(input).begin(), shapeOf(input).end());
    axes = own;
  }
  if (shapeOf(input) != ArrayRef<int64_t>(shape) || own != axes || axes.empty())
    return failure();
  if (isPerRow(input))
    return failure();
  for (Value operand : op->getOperands().drop_front())
    if (dependent.contains(operand))
      return failure();
  ops.push_back(op);
  dependent[op->getResult(0)] = op->hasTrait<MapsRows>();
  return success();
}

LogicalResult RowPattern::addDependent(Operation *op) {
  if (op->getNumResults() != 1)
    return failure();
  Value result = op->getResult(0);
  ArrayRef<int64_t> own = shapeOf(result);
  auto isFull = [&](Value value) {
    auto found = dependent.find(value);
    return found != dependent.end() && found->second;
  };
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    if (isFull(reshape.getInput()))
      return failure();
    reshapes.push_back(reshape);
    dependent[result] = false;
    return success();
  }
  if (!isa<ElementwiseOpInterface, BroadcastOp>(op))
    return failure();
  bool full = own == ArrayRef<int64_t>(shape);
  for (Value operand : op->getOperands()) {
    if (!dependent.contains(operand))
      continue;
    bool fits =
        full ? (isFull(operand) ? shapeOf(operand) == ArrayRef<int64_t>(shape)
                                : alignsWithRows(shapeOf(operand)))
             : !isFull(operand) && shapeOf(operand) == own;
    if (!fits)
      return failure();
  }
  dependent[result] = full;
  return success();
}

SmallVector<Value> RowPattern::rowIndices(ElementEmitter &emitter,
                                          ValueRange at,
                                          ArrayRef<int64_t> own) const {
  SmallVector<Value> indices;
  if (own == ArrayRef<int64_t>(rowShape(/*keepDims=*/true)) ||
      own == ArrayRef<int64_t>(rowShape(/*keepDims=*/false))) {
    bool keepDims = own.size() == shape.size();
    for (size_t dim = 0; dim < at.size(); ++dim)
      if (!isAxis(dim))
        indices.push_back(at[dim]);
      else if (keepDims)
        indices.push_back(emitter.index(0));
    return indices;
  }
  IndexMath index = emitter.indexMath();
  Value position = emitter.index(0);
  for (size_t dim = 0; dim < at.size(); ++dim)
    if (!isAxis(dim))
      position = index.add(index.mul(position, shape[dim]), at[dim]);
  return index.delinearize(position, own);
}

LogicalResult RowPattern::analyze(const ElementEmitter &emitter,
                                  ArrayRef<Root> roots) {
  llvm::SetVector<Operation *> needed;
  visitDefinitions(emitter, roots, [&](Operation *op) {
    return needed.insert(op) ? WalkResult::advance() : WalkResult::skip();
  });
  SmallVector<Operation *> order = needed.takeVector();
  llvm::sort(order,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : order) {
    bool position = takesPositions && isa<ArgmaxOp, ArgminOp>(op);
    if (isRowOp(op) || position) {
      if (failed(addRowOp(op)))
        return failure();
      continue;
    }
    if (leavesRows(op))
      return failure();
    if (llvm::any_of(op->getOperands(),
                     [&](Value v) { return dependent.contains(v); }) &&
        failed(addDependent(op)))
      return failure();
  }
  if (ops.empty())
    return failure();
  // Other shapes of per-row values need one row at a time.
  auto isPlain = [&](Value value) {
    ArrayRef<int64_t> own = shapeOf(value);
    return own == ArrayRef<int64_t>(rowShape(true)) ||
           own == ArrayRef<int64_t>(rowShape(false));
  };
  for (auto [value, full] : dependent)
    if (!full && isVertical() && !isPlain(value))
      return failure();
  return success(llvm::all_of(roots, [&](const Root &root) {
    return isPerRow(root.tensor) ||
           shapeOf(root.tensor) == ArrayRef<int64_t>(shape);
  }));
}
