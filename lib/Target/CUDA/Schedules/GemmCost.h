//===- GemmCost.h - what a product cut into tiles takes ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMCOST_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMCOST_H

#include "Gemm.h"

namespace mpc {

/// What tiles ask of a multiprocessor, from shapes alone, and how long the
/// whole product takes: the model of SassTime.h before there is any code.
class GemmCost {
public:
  GemmCost(const GemmProblem &problem, const CudaTarget &target);

  /// Registers of a thread, roughly.
  int64_t registers(const GemmTiles &tiles) const;
  /// Whether a thread has the registers that it needs, roughly.
  bool fitsRegisters(const GemmTiles &tiles) const;
  /// Bytes that a pipeline may take.
  int64_t pipelineRoom(const GemmTiles &tiles) const;
  /// Cycles until the last multiprocessor is done.
  double cycles(const GemmTiles &tiles) const;

private:
  /// Cycles in which a block makes the rows of its tile, of `together` that
  /// share a multiprocessor.
  double rowCycles(const GemmTiles &tiles, double fromL2,
                   double together) const;

  const GemmProblem &problem;
  const CudaTarget &target;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMCOST_H
