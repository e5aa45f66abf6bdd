//===- PrepareFusion.cpp - canonicalize for fusion ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves casts across data movement and rematerializes ops per reader, so that
// kernels exchange fewer and lower-precision values. Legal because every op is
// pure. First pass of the Fuse stage: later passes add and move no ops.
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
    // Kernels around CPU micro-kernels copy their operands instead.
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
