//===- FuseHorizontal.cpp - horizontal fusion of groups -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges independent (sibling) groups if the target runs them as one launch
// (Analysis/Fusion), and moves upcasts into their readers. Legal because the
// groups stay acyclic. Runs after mpc-select-fusion-groups, once all groups
// have grown.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusion/HorizontalFusion.h"

#include "FusionPasses.h"

namespace mpc {
#define GEN_PASS_DEF_FUSEHORIZONTALPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

struct FuseHorizontalPass
    : mpc::impl::FuseHorizontalPassBase<FuseHorizontalPass> {
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
    fuseHorizontal(graph, *scope->block, scope->target);
    graph.writeMarks();
  }
};

} // namespace
