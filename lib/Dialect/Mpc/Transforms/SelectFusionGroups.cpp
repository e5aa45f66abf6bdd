//===- SelectFusionGroups.cpp - fusion grouping ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Marks every op with its fusion group, chosen by the rules and the priority
// queue of Analysis/Fusion. Legal because all ops are pure and the groups stay
// acyclic. Runs after mpc-prepare-fusion; mpc-fuse-horizontal and
// mpc-outline-fusions consume the marks.
//
//===----------------------------------------------------------------------===//

#include "FusionPasses.h"

#include "mpc/Analysis/Fusion/GreedyFusion.h"

#include "llvm/Support/FormatVariadic.h"

namespace mpc {
#define GEN_PASS_DEF_SELECTFUSIONGROUPSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// Emits one fusion decision as a remark at the group's leading op.
static void remarkOn(const FusionDecision &decision) {
  const FusionSaving &saving = decision.saving;
  InFlightDiagnostic diag = decision.into->emitRemark();
  std::string from = identifierOf(decision.from),
              into = identifierOf(decision.into);
  StringRef kind = decision.from->getName().stripDialect();
  if (decision.verdict == FusionDecision::Verdict::Taken)
    diag << "'" << into << "' takes " << kind << " '" << from << "' as "
         << nameOf(decision.step);
  else
    diag << "'" << into << "' leaves " << kind << " '" << from << "' as "
         << nameOf(decision.step)
         << (decision.verdict == FusionDecision::Verdict::Cycle
                 ? ", there is a kernel between them"
                 : ", it costs more than it saves");
  diag << ": " << llvm::formatv("{0:f3}", saving.seconds * 1e6).str() << " us, "
       << saving.bytes << " bytes, " << saving.launches
       << (saving.launches == 1 ? " launch" : " launches");
}

namespace {

struct SelectFusionGroupsPass
    : mpc::impl::SelectFusionGroupsPassBase<SelectFusionGroupsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<FusionScope> scope = scopeOf(getOperation(), *this, target);
    if (failed(scope))
      return signalPassFailure();
    markAllAnalysesPreserved();
    if (!scope->block)
      return;
    FusionGraph graph(*scope->block);
    if (getOperation()->hasAttr(kUnfusedAttr)) {
      selectSingleOps(graph, *scope->block, scope->target);
      return graph.writeMarks();
    }
    for (const FusionDecision &decision :
         selectFusionGroups(graph, *scope->block, scope->target)) {
      numTaken += decision.verdict == FusionDecision::Verdict::Taken;
      numDeclined += decision.verdict != FusionDecision::Verdict::Taken;
      if (report)
        remarkOn(decision);
    }
    graph.writeMarks();
  }
};

} // namespace
