//===- FuseUpdates.cpp - one kernel for the state of a training step ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The groups that a training step ends in are made before any other grows. All
// that computes new values of state arguments from gradients is one kernel,
// whatever the shapes; all checks of gradients are another. Else each
// parameter would cost launches, and a product that takes its parameter's
// update as epilogue could neither be a library's nor wait for the checks.
//
//===----------------------------------------------------------------------===//

#include "FuseMovement.h"
#include "FusePrepare.h"
#include "FuseRules.h"
#include "OpEmitter.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mpc;

/// Buffers of one kernel: a launch passes 4 KiB of pointers.
static constexpr size_t kMostBuffers = 480;

/// Whether `use` returns the new value of a state argument.
static bool returnsState(OpOperand &use, FunctionOpInterface function) {
  return function && use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
         function.getResultAttr(use.getOperandNumber(), MpcDialect::kAliasAttr);
}

/// Whether another kernel makes the input of the cast and can store it in 16
/// bits: a gradient then lies in memory as such.
static bool isStoredNarrow(CastOp cast) {
  Operation *producer = behindReshapes(cast.getInput()).getDefiningOp();
  return isNarrowing(cast) &&
         bytesPerElement(getElementTypeOrSelf(cast)) == 2 &&
         elementCount(cast.getInput()) > 1 && producer &&
         absorbsResultCast(producer, FusionTarget());
}

/// Makes groups of kind `kind` out of `members`, which are in block order and
/// on no way between each other but through members: as few as a launch's
/// pointers allow, and ops that hand tensors to each other together.
void FuseRules::joinInto(ArrayRef<Operation *> members, FusionKind kind) {
  llvm::SetVector<FusionGroup *> parts;
  for (Operation *op : members)
    graph.groupOf(op)->isJoint = true;
  for (Operation *op : members)
    for (Value operand : op->getOperands())
      if (FusionGroup *source = graph.groupOf(operand);
          source && source->isJoint && elementCount(operand) > 1)
        graph.merge(graph.groupOf(op), source);
  // Scalars first: a way from one of them to a tensor may lead through others.
  for (bool isTensor : {false, true})
    for (Operation *op : members)
      if (isTensor == (elementCount(op->getResult(0)) > 1))
        parts.insert(graph.groupOf(op));

  FusionGroup *into = nullptr;
  size_t buffers = 0;
  for (FusionGroup *part : parts) {
    part->isJoint = true;
    part->kind = kind;
    llvm::SmallPtrSet<Value, 8> inputs;
    for (Operation *op : part->ops)
      for (Value operand : op->getOperands())
        if (graph.groupOf(operand) != part)
          inputs.insert(operand);
    size_t more = inputs.size() + graph.resultsOf(part).size();
    buffers += more;
    if (!into || buffers > kMostBuffers || !graph.merge(into, part)) {
      into = part;
      buffers = more;
    }
  }
}

/// Whether `op` gives one tensor another shape by arithmetic on it and scalars.
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

/// The kernel of kind `update`: elementwise ops, of any shape, whose results
/// only new values of state arguments are made of.
void FuseRules::joinUpdates() {
  auto function = dyn_cast_if_present<FunctionOpInterface>(block.getParentOp());
  llvm::SmallPtrSet<Operation *, 32> updates;
  SmallVector<Operation *> members;
  for (Operation *op : llvm::reverse(ops)) {
    if (graph.groupOf(op)->isLoose ||
        (kernels.mapsOperands && isPartOfProduct(op)) ||
        (!isElementwise(op) && !isFreeToRepeat(op)))
      continue;
    bool changesState = false, isReadBeside = false, isReturned = false;
    for (OpOperand &use : op->getUses()) {
      if (returnsState(use, function))
        isReturned = changesState = true;
      else if (updates.contains(use.getOwner()))
        changesState = true;
      else if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>())
        isReadBeside = true;
    }
    if (!changesState || isReadBeside)
      continue;
    if (auto cast = dyn_cast<CastOp>(op);
        cast && !isReturned && isStoredNarrow(cast))
      continue;
    updates.insert(op);
    members.push_back(op);
  }
  std::reverse(members.begin(), members.end());
  joinInto(members, FusionKind::update);
}

/// The kernel that walks all gradients: whether they are finite, their norm.
/// It widens what it loads, and computes what it unscales by.
void FuseRules::joinChecks() {
  llvm::SmallPtrSet<Operation *, 16> checks;
  SmallVector<Operation *> members;
  for (Operation *op : llvm::reverse(ops)) {
    auto cast = dyn_cast<CastOp>(op);
    bool isCheck = isa<AllFiniteOp, GlobalNormOp>(op);
    bool isPart = (cast && isWidening(cast)) ||
                  (isElementwise(op) && elementCount(op->getResult(0)) == 1);
    bool isReadByChecks =
        !op->use_empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
          return checks.contains(user);
        });
    if (!isCheck && !(isPart && isReadByChecks))
      continue;
    checks.insert(op);
    members.push_back(op);
  }
  std::reverse(members.begin(), members.end());
  joinInto(members, FusionKind::reduce);
}
