//===- PlanningFacts.h - what no policy changes -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PLANNINGFACTS_H
#define MPC_ANALYSIS_PLANNINGFACTS_H

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Analysis/IntegerValues.h"

namespace mpc {

/// What plans of one function under many policies have in common, found once
/// for a search that makes thousands. The function must not change while this
/// lives.
class PlanningFacts {
public:
  PlanningFacts(mlir::func::FuncOp function, const FusionTarget &target);

  /// What the fuser makes of the function before any cast is in it.
  const FusionGraph &getKernels() const { return kernels; }
  const IntegerValues &getIntegers() const { return integers; }

private:
  FusionGraph kernels;
  IntegerValues integers;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PLANNINGFACTS_H
