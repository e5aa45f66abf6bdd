//===- IndexBounds.cpp - bounds of integer inputs used as indices ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows integer inputs to the ops that index with them, so that random test
// data and the lint respect the bounds.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/IndexBounds.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace mpc;

std::optional<int64_t> mpc::indexBound(Value value) {
  int64_t bound = INT64_MAX;
  // Constant added to the elements so far.
  int64_t added = 0;
  auto limit = [&](int64_t extent) {
    bound = std::min(bound, std::max<int64_t>(extent - added, 1));
  };
  auto indexes = [&](Value data, int64_t axis) {
    limit(cast<ShapedType>(data.getType()).getDimSize(axis));
  };
  llvm::SmallPtrSet<Value, 16> seen;
  SmallVector<std::pair<Value, int64_t>> open = {{value, 0}};
  while (!open.empty()) {
    auto [next, before] = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    added = before;
    for (OpOperand &use : next.getUses()) {
      Operation *op = use.getOwner();
      bool isIndex = use.getOperandNumber() == 1;
      if (auto gather = dyn_cast<GatherOp>(op); gather && isIndex)
        indexes(gather.getInput(), gather.getAxis());
      else if (auto gather = dyn_cast<GatherElementsOp>(op); gather && isIndex)
        indexes(gather.getInput(), gather.getAxis());
      else if (auto scatter = dyn_cast<ScatterElementsOp>(op);
               scatter && isIndex)
        indexes(scatter.getInput(), scatter.getAxis());
      else if (isa<GatherNdOp, ScatterNdOp>(op) && isIndex) {
        auto data = cast<ShapedType>(op->getOperand(0).getType());
        for (int64_t axis = 0; axis < data.getRank(); ++axis)
          indexes(op->getOperand(0), axis);
      } else if (auto oneHot = dyn_cast<OneHotOp>(op);
                 oneHot && use.getOperandNumber() == 0)
        limit(oneHot.getDepth());
      else if (auto movement = dyn_cast<MovementOpInterface>(op);
               isa<CastOp>(op) ||
               (movement && movement.givesElements(use.getOperandNumber())))
        open.push_back({op->getResult(0), added});
      else if (isa<AddOp>(op) &&
               isa<IntegerType>(getElementTypeOrSelf(next.getType()))) {
        // Position tables may have leading rows for other purposes.
        std::optional<double> offset =
            constantSplat(op->getOperand(1 - use.getOperandNumber()));
        if (offset && *offset >= 0 && *offset < double(INT32_MAX))
          open.push_back({op->getResult(0), added + int64_t(*offset)});
      }
    }
  }
  if (bound == INT64_MAX)
    return std::nullopt;
  return bound;
}
