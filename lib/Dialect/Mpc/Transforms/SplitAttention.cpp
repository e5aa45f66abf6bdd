//===- SplitAttention.cpp - split batched decode attention ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batched decoders have one KV cache per sequence. Projections stay batched, so
// that weights are read once; attention is split per sequence, which avoids
// concatenating the caches. Runs after mpc-recognize-attention and
// canonicalization, which remove the ops that models insert between.
//
//===----------------------------------------------------------------------===//

#include "MatchUtils.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITATTENTIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Returns the inputs of a concat along the batch dimension whose entries have
/// batch 1; empty for any other value.
static ValueRange joinedEntries(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  bool isJoined =
      concat && concat.getAxis() == 0 && concat.getInputs().size() > 1 &&
      llvm::all_of(concat.getInputs(),
                   [](Value part) { return shapeOf(part).front() == 1; });
  return isJoined ? ValueRange(concat.getInputs()) : ValueRange();
}

/// Splits `op` by batch entry if keys and values are concatenated by batch.
static bool split(AttentionOp op) {
  // With fewer dimensions the first one is the heads.
  constexpr int64_t kFewestDimensions = 4;
  if (rankOf(op.getQuery()) < kFewestDimensions)
    return false;
  ValueRange keys = joinedEntries(op.getKey()),
             values = joinedEntries(op.getValue());
  if (keys.empty() || keys.size() != values.size())
    return false;
  OpBuilder builder(op);
  OpEmitter emit(builder, op);
  SmallVector<int64_t> shape(shapeOf(op.getResult()));
  shape.front() = 1;
  auto type = cast<RankedTensorType>(op.getType()).clone(shape);
  Value mask = op.getMask();
  bool masksDiffer = mask && rankOf(mask) == rankOf(op.getQuery()) &&
                     shapeOf(mask).front() > 1;
  SmallVector<Value> results;
  for (size_t i = 0; i < keys.size(); ++i)
    results.push_back(emit.create<AttentionOp>(
        type, emit.sliceAxis(op.getQuery(), 0, i, 1), keys[i], values[i],
        masksDiffer ? emit.sliceAxis(mask, 0, i, 1) : mask, op.getScaleAttr(),
        op.getCausalAttr(), op.getComputeAttr()));
  op.replaceAllUsesWith(emit.concat(results, 0));
  op.erase();
  return true;
}

namespace {
struct SplitAttentionPass
    : mpc::impl::SplitAttentionPassBase<SplitAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AttentionOp> all;
    getOperation().walk([&](AttentionOp op) { all.push_back(op); });
    numSplit += llvm::count_if(all, split);
    if (numSplit == 0)
      markAllAnalysesPreserved();
  }
};
} // namespace
