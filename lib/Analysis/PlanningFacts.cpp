//===- PlanningFacts.cpp - cached analyses for planning -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PlanningFacts.h"

#include "mpc/Analysis/Fusion/GroupOps.h"

using namespace mlir;
using namespace mpc;

PlanningFacts::PlanningFacts(func::FuncOp function, const FusionTarget &target)
    : kernels(function.getBody().front()), integers(function) {
  groupOps(kernels, function.getBody().front(), target.machine);
}
