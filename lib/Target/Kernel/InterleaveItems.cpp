//===- InterleaveItems.cpp - two items of tiles at a time -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Items that do not depend on each other, op by op: the chain of additions,
// divisions and roots between two walks of one item runs while the other's
// does, and what both read is read once (unroll and jam).
//
//===----------------------------------------------------------------------===//

#include "TileRegions.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;

static void pairOps(OpBuilder &builder, ArrayRef<Operation *> ops,
                    IRMapping &other);

static SmallVector<Operation *> opsOf(Block &block) {
  return llvm::map_to_vector(block.without_terminator(),
                             [](Operation &op) { return &op; });
}

static SmallVector<Value> mapped(ValueRange values, const IRMapping &other) {
  return llvm::map_to_vector(
      values, [&](Value value) { return other.lookupOrDefault(value); });
}

/// One walk for both: the same positions, the carried values side by side.
static void pairWalk(OpBuilder &builder, WalkOp walk, IRMapping &other) {
  auto both = [&](ValueRange own) {
    SmallVector<Value> values(own);
    llvm::append_range(values, mapped(own, other));
    return values;
  };
  size_t count = walk.getInitial().size();
  auto merged = WalkOp::create(builder, walk.getLoc(), walk.getFrom(),
                               walk.getTo(), static_cast<int64_t>(walk.getBy()),
                               walk.getMasked(), both(walk.getInitial()));
  Block &from = walk.getBody().front(), &to = merged.getBody().front();
  for (auto [argument, value] :
       llvm::zip(from.getArguments(), to.getArguments()))
    argument.replaceAllUsesWith(value);
  ValueRange carried = merged.getCarried();
  for (size_t i = 0; i < count; ++i)
    other.map(carried[i], carried[count + i]);
  // Without carried values the new walk's block has its terminator already.
  if (!to.empty())
    to.back().erase();
  to.getOperations().splice(to.end(), from.getOperations());
  pairOps(builder, opsOf(to), other);
  Operation *yield = to.getTerminator();
  yield->setOperands(both(yield->getOperands()));
  ValueRange results = merged.getResults();
  for (size_t i = 0; i < count; ++i)
    other.map(results[i], results[count + i]);
  walk.replaceAllUsesWith(results.take_front(count));
  walk.erase();
}

static void pairOps(OpBuilder &builder, ArrayRef<Operation *> ops,
                    IRMapping &other) {
  for (Operation *op : ops) {
    builder.setInsertionPointAfter(op);
    if (auto walk = dyn_cast<WalkOp>(op))
      pairWalk(builder, walk, other);
    else if (auto commit = dyn_cast<CommitOp>(op))
      pairOps(builder, opsOf(commit.getBody().front()), other);
    else
      builder.clone(*op, other);
  }
}

/// Fetches the lines that `load` of the items after the next reads: `ahead`
/// elements farther on.
static void fetchAhead(OpBuilder &builder, vector::LoadOp load, int64_t ahead) {
  constexpr int64_t kLineBits = 512;
  MemRefType memory = load.getMemRefType();
  int64_t step = kLineBits / memory.getElementTypeBitWidth();
  builder.setInsertionPoint(load);
  IndexMath index{builder, load.getLoc()};
  for (int64_t at = 0; at < load.getVectorType().getNumElements(); at += step) {
    SmallVector<Value> indices(load.getIndices());
    indices.back() = index.add(indices.back(), ahead + at);
    memref::PrefetchOp::create(builder, load.getLoc(), load.getBase(), indices,
                               /*isWrite=*/false, /*localityHint=*/3,
                               /*isDataCache=*/true);
  }
}

void mpc::interleaveItems(OpBuilder &builder, ArrayRef<Operation *> ops,
                          Value item, Value second, int64_t ahead) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *before = ops.front()->getPrevNode(),
            *after = ops.back()->getNextNode();
  IRMapping other;
  other.map(item, second);
  pairOps(builder, ops, other);
  if (!ahead)
    return;
  for (Operation *op = before->getNextNode(); op != after;
       op = op->getNextNode())
    if (auto walk = dyn_cast<WalkOp>(op)) {
      // What both read has no copy.
      SmallVector<vector::LoadOp> loads;
      walk.walk([&](vector::LoadOp load) {
        Value copy = other.lookupOrNull(load.getResult());
        auto second =
            copy ? copy.getDefiningOp<vector::LoadOp>() : vector::LoadOp();
        if (second && second.getMemRefType().getLayout().isIdentity() &&
            second->getOperands() != load->getOperands())
          loads.append({load, second});
      });
      for (vector::LoadOp load : loads)
        fetchAhead(builder, load, ahead);
      return;
    }
}
