//===- PlanningAnalyses.h - cached analyses for planning --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PLANNINGANALYSES_H
#define MPC_ANALYSIS_PLANNINGANALYSES_H

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/FusionGraph.h"
#include "mpc/Analysis/IntegerValuedFloats.h"

namespace mpc {

/// Policy-independent analyses of one function, computed once for a search over
/// thousands of plans. The function must not change during its lifetime.
class PlanningAnalyses {
public:
  PlanningAnalyses(mlir::func::FuncOp function, const CastFusionTarget &target);

  /// Fusion groups of the function without casts.
  const FusionGraph &getKernels() const { return kernels; }
  const IntegerValuedFloats &getIntegers() const { return integers; }

private:
  FusionGraph kernels;
  IntegerValuedFloats integers;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PLANNINGANALYSES_H
