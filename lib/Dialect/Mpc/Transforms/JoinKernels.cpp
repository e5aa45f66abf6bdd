//===- JoinKernels.cpp - horizontal fusion of groups ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges independent (sibling) groups if the target runs them as one launch
// (Analysis/Fusion), and moves upcasts into their readers. Legal because the
// groups stay acyclic. Runs after mpc-group-ops, once all groups have grown.
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
