//===- PlanningFacts.h - cached analyses for planning -----------*- C++ -*-===//
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

/// Policy-independent analyses of one function, computed once for a search over
/// thousands of plans. The function must not change during its lifetime.
class PlanningFacts {
public:
  PlanningFacts(mlir::func::FuncOp function, const FusionTarget &target);

  /// Fusion groups of the function without casts.
  const FusionGraph &getKernels() const { return kernels; }
  const IntegerValues &getIntegers() const { return integers; }

private:
  FusionGraph kernels;
  IntegerValues integers;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PLANNINGFACTS_H
