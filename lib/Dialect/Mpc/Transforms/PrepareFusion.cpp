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
    removeProvenIndexChecks(getOperation());
    splitConcats(block);
    filterGradientsToMatmuls(block, scope->target);
    reshapeBeforeUpdates(block);
    sinkUpcasts(block);
    hoistDowncasts(block);
    hoistDowncastsAboveSlices(block);
    rematerializeUpcasts(block);
    if (scope->target.kernels().fusesSiblings)
      rematerializeQuantization(block, scope->target);
    rematerializeArithmetic(block);
    rematerializeDequantization(block);
    rematerializeUnscaling(block);
    // Kernels around CPU micro-kernels copy their operands instead.
    if (scope->target.kernels().fusesOperandMovement) {
      sinkInputCasts(block);
      rematerializeMovement(block, scope->target);
      shareReducedMatrix(block);
    }
    if (scope->target.kernels().fusesSiblings)
      rematerializeReshapes(block);
    eraseDeadOps(block);
  }
};

} // namespace
