//===- MoveReshapes.cpp - move reshapes out of fusions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives ops that should fuse one shape: updates the shape of their parameter,
// reductions over rows the matrix that a matmul reads.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "OpEmitter.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `op` is elementwise on one tensor shape and scalars.
static bool keepsOneTensor(Operation *op) {
  return isElementwise(op) && llvm::all_of(op->getOperands(), [&](Value value) {
           return elementCount(value) == 1 ||
                  shapeOf(value) == shapeOf(op->getResult(0));
         });
}

void mpc::reshapeBeforeUpdates(Block &block) {
  auto function = dyn_cast_if_present<FunctionOpInterface>(block.getParentOp());
  llvm::SmallPtrSet<Operation *, 32> updates;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (op.getNumResults() != 1 || op.use_empty() ||
        elementCount(op.getResult(0)) == 1 ||
        !(isElementwise(&op) || isa<ReshapeOp>(op)) ||
        !llvm::all_of(op.getUses(), [&](OpOperand &use) {
          return returnsState(use, function) ||
                 updates.contains(use.getOwner());
        }))
      continue;
    updates.insert(&op);
    Operation *first = *op.user_begin();
    bool isReshaped =
        keepsOneTensor(&op) &&
        llvm::all_of(op.getUsers(), [&](Operation *user) {
          return isa<ReshapeOp>(user) &&
                 user->getResultTypes() == first->getResultTypes();
        });
    if (!isReshaped)
      continue;
    OpBuilder builder(&op);
    OpEmitter emit(builder, &op);
    ArrayRef<int64_t> shape = shapeOf(first->getResult(0));
    for (OpOperand &operand : op.getOpOperands())
      if (elementCount(operand.get()) > 1) {
        operand.set(emit.reshape(operand.get(), shape));
        updates.insert(operand.get().getDefiningOp());
      }
    op.getResult(0).setType(
        RankedTensorType::get(shape, getElementTypeOrSelf(op.getResult(0))));
    SmallVector<Operation *> reshapes(op.getUsers());
    for (Operation *reshape : reshapes) {
      updates.erase(reshape);
      reshape->getResult(0).replaceAllUsesWith(op.getResult(0));
      reshape->erase();
    }
  }
}

/// Returns a matrix view of the rows of `value` that a matmul or concat reads,
/// or null.
static Value matrixOf(Value value) {
  Value root = value;
  for (auto reshape = root.getDefiningOp<ReshapeOp>();
       reshape && keepsLastDimension(reshape);
       reshape = root.getDefiningOp<ReshapeOp>())
    root = reshape.getInput();
  SmallVector<Value> candidates = {value, root};
  for (Operation *user : root.getUsers())
    if (auto reshape = dyn_cast<ReshapeOp>(user);
        reshape && keepsLastDimension(reshape))
      candidates.push_back(reshape.getResult());
  for (Value candidate : candidates)
    if (shapeOf(candidate).size() == 2 &&
        llvm::any_of(candidate.getUsers(), [](Operation *user) {
          return isa<MatmulOp, ConcatOp>(user);
        }))
      return candidate;
  return {};
}

/// Returns true if a matmul or a concat reads the value or a reshape of it.
static bool isMultiplied(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<MatmulOp, ConcatOp>(user) ||
           (isa<ReshapeOp>(user) && isMultiplied(user->getResult(0)));
  });
}

/// If data movement is duplicated per reader, returns the copy that a matmul
/// reads, moved to this position; else `value`.
static Value copyOfProduct(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !isCopiedForReaders(maker) || isMultiplied(value))
    return value;
  for (Operation *copy : maker->getOperand(0).getUsers())
    if (copy != maker &&
        OperationEquivalence::isEquivalentTo(
            copy, maker, OperationEquivalence::IgnoreLocations) &&
        isMultiplied(copy->getResult(0))) {
      if (!copy->isBeforeInBlock(maker))
        copy->moveBefore(maker);
      return copy->getResult(0);
    }
  return value;
}

void mpc::shareReducedMatrix(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    if (!sum || !sumsInFloat32(sum))
      continue;
    Value summed = summedValue(sum);
    size_t rank = shapeOf(summed).size();
    if (rank < 2 || sum.getAxes() != ArrayRef<int64_t>(llvm::to_vector(
                                         llvm::seq<int64_t>(rank - 1))))
      continue;
    Value matrix = copyOfProduct(summed);
    if (rank > 2)
      if (Value flat = matrixOf(matrix))
        matrix = flat;
    if (matrix == summed)
      continue;
    // A view of the reduction's input can be moved right before its readers.
    if (Operation *view = matrix.getDefiningOp();
        view && !view->isBeforeInBlock(sum)) {
      Operation *first = view->getOperand(0).getDefiningOp();
      first ? view->moveAfter(first) : view->moveBefore(&block.front());
    }
    OpBuilder builder(sum);
    Value input = matrix;
    if (auto cast = sum.getInput().getDefiningOp<CastOp>();
        cast && summed != sum.getInput()) {
      input = OpEmitter::castLike(builder, cast, matrix);
    }
    sum.getInputMutable().assign(input);
    SmallVector<int64_t> rows =
        llvm::to_vector(llvm::seq<int64_t>(shapeOf(matrix).size() - 1));
    sum.setAxes(rows);
  }
}
