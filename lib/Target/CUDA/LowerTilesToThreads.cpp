//===- LowerTilesToThreads.cpp - tile dialect to GPU threads --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs after mpc-lower-kernels-to-gpu; emitCuda prints the result.
//
//===----------------------------------------------------------------------===//

#include "Rows/ThreadGroupLowering.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_LOWERTILESTOTHREADSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
struct LowerTilesToThreadsPass
    : mpc::impl::LowerTilesToThreadsPassBase<LowerTilesToThreadsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<gpu::GPUFuncOp> functions;
    getOperation().walk(
        [&](gpu::GPUFuncOp function) { functions.push_back(function); });
    for (gpu::GPUFuncOp function : functions)
      if (failed(lower(function)))
        return signalPassFailure();
  }

private:
  static LogicalResult lower(gpu::GPUFuncOp function) {
    SmallVector<tile::ForEachOp> owns;
    function.walk([&](tile::ForEachOp own) { owns.push_back(own); });
    for (tile::ForEachOp own : owns)
      if (failed(ThreadGroupLowering(function, own).lower()))
        return failure();
    // Lowering leaves redundant casts and duplicate index computations.
    (void)applyPatternsGreedily(function, FrozenRewritePatternSet());
    IRRewriter rewriter(function.getContext());
    DominanceInfo dominance(function);
    eliminateCommonSubExpressions(rewriter, dominance, function);
    return success();
  }
};
} // namespace
