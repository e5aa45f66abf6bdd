//===- FuseStateUpdates.cpp - multi-tensor kernels of a training step -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups at the end of a training step, formed before any other grows: one
// kernel for all updates of state arguments, whatever their shapes
// (multi-tensor apply), and one for all gradient checks. Otherwise each
// parameter would need its own launches, and a GEMM with a parameter update as
// epilogue could neither be a library call nor wait for the checks.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"
#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mpc;

/// Maximum buffers of one kernel: a launch passes 4 KiB of pointers.
static constexpr size_t kMostBuffers = 480;

/// Returns true if another kernel computes the input of the cast and can store
/// it in 16 bits, as a gradient's.
static bool isStoredNarrow(CastOp cast) {
  Operation *producer = sourceOfReshapes(cast.getInput()).getDefiningOp();
  return isNarrowing(cast) &&
         bytesPerElement(getElementTypeOrSelf(cast)) == 2 &&
         elementCount(cast.getInput()) > 1 && producer &&
         fusesResultCast(producer, CastFusionTarget());
}

/// Forms groups of kind `kind` from `members`, which are in block order and
/// connected only through members: as few groups as a launch's pointer limit
/// allows, with connected ops together.
void FusionRules::joinInto(ArrayRef<Operation *> members, FusionKind kind) {
  llvm::SetVector<FusionGroup *> parts;
  for (Operation *op : members)
    graph.groupOf(op)->isJoint = true;
  for (Operation *op : members)
    for (Value operand : op->getOperands())
      if (FusionGroup *source = graph.groupOf(operand);
          source && source->isJoint && elementCount(operand) > 1)
        graph.merge(graph.groupOf(op), source);
  // Scalars first: a path from a scalar to a tensor may pass through others.
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

/// The kernel of kind `update`: elementwise ops, of any shape, on which only
/// new values of state arguments depend.
void FusionRules::joinUpdates() {
  auto function = dyn_cast_if_present<FunctionOpInterface>(block.getParentOp());
  llvm::SmallPtrSet<Operation *, 32> updates;
  SmallVector<Operation *> members;
  for (Operation *op : llvm::reverse(ops)) {
    if (graph.groupOf(op)->isLoose ||
        (kernels.fusesOperandMovement && isPartOfProduct(op)) ||
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

/// The kernel that reads all gradients to check that they are finite and to
/// compute their norm. It widens loads and computes the unscaling factor.
void FusionRules::joinChecks() {
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
