//===- RelaxRounding.cpp - excess precision inside kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets a reader inside a fusion see a value as it was before a cast narrowed
// it. Runs after mpc-fuse and only under relaxed rounding; what lies in memory
// keeps its type and its rounding.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RELAXROUNDINGPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// A conversion between floats that the precision stage chose.
bool isChosenCast(CastOp cast) {
  return !cast.getPinned() &&
         isa<FloatType>(getElementTypeOrSelf(cast.getInput())) &&
         isa<FloatType>(getElementTypeOrSelf(cast.getResult()));
}

/// The value that `widening` would give if the cast before it did not round;
/// null where the two are no such pair.
Value valueBeforeRounding(CastOp widening) {
  auto narrowing = widening.getInput().getDefiningOp<CastOp>();
  if (!narrowing || !isChosenCast(widening) || !isChosenCast(narrowing))
    return {};
  Value wide = narrowing.getInput();
  unsigned between =
      getElementTypeOrSelf(widening.getInput()).getIntOrFloatBitWidth();
  if (wide.getType() != widening.getResult().getType() ||
      getElementTypeOrSelf(wide).getIntOrFloatBitWidth() <= between)
    return {};
  // A kernel computes what it stores: an input of its own is no result.
  bool isYielded = llvm::any_of(
      widening->getUsers(), [](Operation *user) { return isa<YieldOp>(user); });
  return isYielded && isa<BlockArgument>(wide) ? Value() : wide;
}

struct RelaxRoundingPass : mpc::impl::RelaxRoundingPassBase<RelaxRoundingPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<CastOp> casts;
    getOperation().walk([&](FusionOp fusion) {
      llvm::append_range(casts, fusion.getBody().getOps<CastOp>());
    });
    // In block order: the pair behind a dropped one reads its wide value.
    for (CastOp widening : casts) {
      Value wide = valueBeforeRounding(widening);
      if (!wide)
        continue;
      widening.getResult().replaceAllUsesWith(wide);
      ++numDropped;
    }
    for (CastOp cast : llvm::reverse(casts))
      if (cast->use_empty())
        cast.erase();
    if (numDropped == 0)
      markAllAnalysesPreserved();
  }
};

} // namespace
