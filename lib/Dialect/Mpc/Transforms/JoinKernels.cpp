//===- JoinKernels.cpp - kernels that run as one --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Joins groups that stand side by side where the target runs them as one launch
// (Analysis/Fusion), and gives widening casts to their readers. Legal because
// groups still never wait for each other. Runs once all groups have grown,
// after mpc-group-ops.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/JoinKernels.h"

#include "FusionPasses.h"

namespace mpc {
#define GEN_PASS_DEF_JOINKERNELSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

struct JoinKernelsPass : mpc::impl::JoinKernelsPassBase<JoinKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<FusionScope> scope = scopeOf(getOperation(), *this, target);
    if (failed(scope))
      return signalPassFailure();
    markAllAnalysesPreserved();
    if (!scope->block)
      return;
    FusionGraph graph(*scope->block);
    if (failed(graph.readMarks(*scope->block)))
      return signalPassFailure();
    joinKernels(graph, *scope->block, scope->target);
    graph.writeMarks();
  }
};

} // namespace
