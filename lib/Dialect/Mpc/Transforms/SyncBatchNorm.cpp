//===- SyncBatchNorm.cpp - synchronized batch norm ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SyncBN: decomposes training-mode batch norms before the layout stage does,
// with statistics over the batches of all ranks. Runs in the stage that
// averages gradients.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"

#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_SYNCBATCHNORMPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct SyncBatchNormPass : mpc::impl::SyncBatchNormPassBase<SyncBatchNormPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (ranks < 1) {
      function.emitError() << "trains on 1 rank or more, found "
                           << int64_t(ranks);
      return signalPassFailure();
    }
    SmallVector<Operation *> norms;
    function.walk([&](Operation *op) {
      if (isa<BatchNormTrainingOp, BatchNormGradientOp>(op))
        norms.push_back(op);
    });
    if (ranks == 1 || norms.empty())
      return markAllAnalysesPreserved();
    SharedStatistics shared;
    for (Operation *op : norms) {
      OpBuilder builder(op);
      op->replaceAllUsesWith(decomposeNorm(builder, op, shared, ranks));
      op->erase();
      ++numNorms;
    }
  }
};
} // namespace
