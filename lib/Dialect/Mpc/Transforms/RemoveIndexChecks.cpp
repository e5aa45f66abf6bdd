//===- RemoveIndexChecks.cpp - remove provably redundant bounds checks ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"

#include "mpc/Analysis/RangeAnalysis.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

using namespace mlir;
using namespace mpc;

/// Returns true if `value` holds the elements of an argument. RangeAnalysis
/// trusts the model on the range of some integer inputs; a bounds check must
/// not.
static bool isInput(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp>(op) && !isUnaryMovement(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

void mpc::removeProvenIndexChecks(func::FuncOp function) {
  SmallVector<Operation *> checked;
  for (Operation &op : function.getBody().front())
    if (op.hasAttr(kCheckedIndicesAttr))
      checked.push_back(&op);
  if (checked.empty())
    return;
  RangeAnalysis ranges(function);
  for (Operation *op : checked) {
    SmallVector<int64_t> extents = indexedExtents(op);
    // An op that replaced a gather or scatter reads no indices.
    if (extents.empty()) {
      op->removeDiscardableAttr(kCheckedIndicesAttr);
      continue;
    }
    Value indices = op->getOperand(1);
    int64_t least = *llvm::min_element(extents);
    bool isInRange =
        elementCount(indices) == 0 ||
        (!isInput(indices) &&
         ranges.get(indices).isWithin(checksLengths(op) ? 0 : -double(least),
                                      double(least - 1)));
    // Import has checked constant indices.
    if (isInRange || indices.getDefiningOp<mpc::ConstantOp>())
      op->removeDiscardableAttr(kCheckedIndicesAttr);
  }
}
