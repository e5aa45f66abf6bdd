//===- CodeDuplication.cpp - limit on duplicated code in a kernel ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel computes an element where it is read. Data movement reads its
// operand at indices of its own, so the code of an op before several movement
// ops is duplicated per path: for y = concat(y, y) or y = y[1:] + y[:-1],
// repeated n times, 2^n copies.
//
//===----------------------------------------------------------------------===//

#include "FusionRules.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mpc;

/// Maximum number of ops in a kernel's code, counting copies; operands of a
/// concat, which are branches, count as ops.
static constexpr size_t kMostCodeOps = 4 * kMostKernelOps;

/// Returns true if the code of a kernel of both groups would be too large.
bool FusionRules::repeatsCode(FusionGroup *group, FusionGroup *joining) const {
  SmallVector<Operation *> members;
  size_t moving = 0;
  for (FusionGroup *part : {group, joining})
    for (Operation *op : part->ops) {
      members.push_back(op);
      moving += !isElementwise(op);
    }
  // A single movement op at most doubles the code.
  if (moving < 2)
    return false;
  llvm::sort(members, [&](Operation *a, Operation *b) {
    return graph.positionOf(a) > graph.positionOf(b);
  });
  // The index functions at which each op is read, by number; 0 is the identity.
  llvm::DenseMap<Operation *, llvm::SmallSet<size_t, 4>> reads;
  size_t functions = 0, total = 0;
  for (Operation *op : members) {
    llvm::SmallSet<size_t, 4> own = std::move(reads[op]);
    if (own.empty())
      own.insert(0);
    total +=
        own.size() *
        (isa<ConcatOp>(op) ? std::max<size_t>(op->getNumOperands(), 1) : 1);
    if (total > kMostCodeOps)
      return true;
    for (Value operand : op->getOperands()) {
      FusionGroup *source = graph.groupOf(operand);
      if (!source || (source != group && source != joining))
        continue;
      llvm::SmallSet<size_t, 4> &at = reads[operand.getDefiningOp()];
      for (size_t function : own)
        at.insert(isElementwise(op) ? function : ++functions);
    }
  }
  return false;
}
