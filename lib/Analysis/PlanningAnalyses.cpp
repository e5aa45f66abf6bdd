//===- PlanningAnalyses.cpp - cached analyses for planning ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PlanningAnalyses.h"

#include "mpc/Analysis/Fusion/GreedyFusion.h"

using namespace mlir;
using namespace mpc;

PlanningAnalyses::PlanningAnalyses(func::FuncOp function,
                                   const CastFusionTarget &target)
    : kernels(function.getBody().front()), integers(function) {
  selectFusionGroups(kernels, function.getBody().front(), target.machine);
}
