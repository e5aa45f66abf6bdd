//===- RelaxRounding.cpp - excess precision inside kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets readers inside a fusion use a value from before a narrowing cast. Runs
// after mpc-outline-fusions, only under relaxed rounding; values in memory keep
// their type and rounding.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_RELAXROUNDINGPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Returns true for a float conversion inserted by the precision stage.
bool isChosenCast(CastOp cast) {
  return !cast.getPinned() &&
         isa<FloatType>(getElementTypeOrSelf(cast.getInput())) &&
         isa<FloatType>(getElementTypeOrSelf(cast.getResult()));
}

/// Returns the value before the narrowing cast of a narrow-widen pair; null if
/// `widening` is not part of such a pair.
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
  // A kernel must not yield its own input.
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
    // Block order: a later pair reads the f32 value of a removed one.
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
