//===- PrepareFusion.cpp - bring ops to where they fuse -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves casts past movement and repeats ops for their readers, so that fewer
// and narrower values lie between kernels. Legal because every op is pure and
// computes the same where it goes. Runs first in the Fuse stage: afterwards no
// op appears or moves.
//
//===----------------------------------------------------------------------===//

#include "PrepareFusion.h"
#include "FusionPasses.h"

namespace mpc {
#define GEN_PASS_DEF_PREPAREFUSIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

struct PrepareFusionPass : mpc::impl::PrepareFusionPassBase<PrepareFusionPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<FusionScope> scope = scopeOf(getOperation(), *this, target);
    if (failed(scope))
      return signalPassFailure();
    if (!scope->block)
      return markAllAnalysesPreserved();
    Block &block = *scope->block;
    dropProvenIndexChecks(getOperation());
    splitConcats(block);
    multiplyPixels(block, scope->target);
    reshapeBeforeUpdates(block);
    widenAfterMovement(block);
    narrowBeforeMovement(block);
    narrowBeforeSlices(block);
    repeatWideningCasts(block);
    repeatArithmetic(block);
    repeatPanels(block);
    repeatScalarsForChecks(block);
    // Kernels around the CPU's micro-kernels copy their operands instead.
    if (scope->target.kernels().mapsOperands) {
      narrowInputsLast(block);
      repeatMovement(block, scope->target);
      sumMatrices(block);
    }
    if (scope->target.kernels().joinsSiblings)
      repeatReshapes(block);
    eraseDeadOps(block);
  }
};

} // namespace
