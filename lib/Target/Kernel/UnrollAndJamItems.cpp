//===- UnrollAndJamItems.cpp - unroll-and-jam of items --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interleaves independent items op by op (unroll and jam): the dependence chain
// of additions, divisions and roots between two loops of one item overlaps with
// those of the others, and common inputs are loaded once.
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

/// Maps from the first item's values to those of each other item.
using Copies = MutableArrayRef<IRMapping>;

static void copyOps(OpBuilder &builder, ArrayRef<Operation *> ops,
                    Copies copies);

static SmallVector<Operation *> opsOf(Block &block) {
  return llvm::map_to_vector(block.without_terminator(),
                             [](Operation &op) { return &op; });
}

/// Returns values of the first item followed by those of the others.
static SmallVector<Value> ofAll(ValueRange own, Copies copies) {
  SmallVector<Value> values(own);
  for (const IRMapping &copy : copies)
    for (Value value : own)
      values.push_back(copy.lookupOrDefault(value));
  return values;
}

/// Maps the first `count` of `values` to the following ones, of the other
/// items.
static void mapOthers(ValueRange values, size_t count, Copies copies) {
  for (auto [number, copy] : llvm::enumerate(copies))
    for (size_t i = 0; i < count; ++i)
      copy.map(values[i], values[(number + 1) * count + i]);
}

/// Emits one loop for all items: the same positions, with all carried values.
static void joinWalks(OpBuilder &builder, ItemLoopOp walk, Copies copies) {
  size_t count = walk.getInitial().size();
  auto merged =
      ItemLoopOp::create(builder, walk.getLoc(), walk.getFrom(), walk.getTo(),
                         static_cast<int64_t>(walk.getBy()), walk.getMasked(),
                         ofAll(walk.getInitial(), copies));
  Block &from = walk.getBody().front(), &to = merged.getBody().front();
  for (auto [argument, value] :
       llvm::zip(from.getArguments(), to.getArguments()))
    argument.replaceAllUsesWith(value);
  mapOthers(merged.getCarried(), count, copies);
  // Without carried values the new loop's block already has a terminator.
  if (!to.empty())
    to.back().erase();
  to.getOperations().splice(to.end(), from.getOperations());
  copyOps(builder, opsOf(to), copies);
  Operation *yield = to.getTerminator();
  yield->setOperands(ofAll(yield->getOperands(), copies));
  ValueRange results = merged.getResults();
  mapOthers(results, count, copies);
  walk.replaceAllUsesWith(results.take_front(count));
  walk.erase();
}

static void copyOps(OpBuilder &builder, ArrayRef<Operation *> ops,
                    Copies copies) {
  for (Operation *op : ops) {
    builder.setInsertionPointAfter(op);
    if (auto walk = dyn_cast<ItemLoopOp>(op))
      joinWalks(builder, walk, copies);
    else if (auto commit = dyn_cast<ItemStoreOp>(op))
      copyOps(builder, opsOf(commit.getBody().front()), copies);
    else
      for (IRMapping &copy : copies)
        builder.clone(*op, copy);
  }
}

/// Prefetches the cache lines that `load` reads `ahead` elements farther, for
/// items after the next.
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

void mpc::unrollAndJamItems(OpBuilder &builder, ArrayRef<Operation *> ops,
                            Value item, ValueRange others, int64_t ahead) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *before = ops.front()->getPrevNode(),
            *after = ops.back()->getNextNode();
  SmallVector<IRMapping> copies(others.size());
  for (auto [copy, other] : llvm::zip_equal(copies, others))
    copy.map(item, other);
  copyOps(builder, ops, copies);
  if (!ahead)
    return;
  for (Operation *op = before->getNextNode(); op != after;
       op = op->getNextNode())
    if (auto walk = dyn_cast<ItemLoopOp>(op)) {
      SmallVector<vector::LoadOp> loads;
      walk.walk([&](vector::LoadOp load) {
        if (!load.getMemRefType().getLayout().isIdentity())
          return;
        size_t known = loads.size();
        for (const IRMapping &copy : copies)
          // A load shared by all items has the same operands in each.
          if (Value value = copy.lookupOrNull(load.getResult()))
            if (auto other = value.getDefiningOp<vector::LoadOp>();
                other && other->getOperands() != load->getOperands())
              loads.push_back(other);
        if (loads.size() > known)
          loads.push_back(load);
      });
      for (vector::LoadOp load : loads)
        fetchAhead(builder, load, ahead);
      return;
    }
}
