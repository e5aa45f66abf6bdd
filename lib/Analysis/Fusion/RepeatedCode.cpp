//===- RepeatedCode.cpp - ops that a kernel would contain many times ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel computes an element where it is read. Data movement reads its
// operand at other indices than its readers read the result, so that an op
// behind several movements stands in the code once for each way to it: of
// y = concat(y, y) or y = y[1:] + y[:-1], repeated n times, 2^n times.
//
//===----------------------------------------------------------------------===//

#include "GroupRules.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mpc;

/// The most ops that the code of one kernel consists of, counted as often as
/// they stand in it; operands of a concat, which are branches, count as ops.
static constexpr size_t kMostCodeOps = 4 * kMostKernelOps;

/// Whether the code of a kernel of both groups would contain too many ops.
bool GroupRules::repeatsCode(FusionGroup *group, FusionGroup *joining) const {
  SmallVector<Operation *> members;
  size_t moving = 0;
  for (FusionGroup *part : {group, joining})
    for (Operation *op : part->ops) {
      members.push_back(op);
      moving += !isElementwise(op);
    }
  // Each of fewer reads at other indices at most twice.
  if (moving < 2)
    return false;
  llvm::sort(members, [&](Operation *a, Operation *b) {
    return graph.positionOf(a) > graph.positionOf(b);
  });
  // The functions of a result's indices at which each op is read, by number; 0
  // is the identity.
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
