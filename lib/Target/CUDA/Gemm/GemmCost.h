//===- GemmCost.h - cost model of tiled GEMM --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_GEMMCOST_H
#define MPC_LIB_TARGET_CUDA_GEMM_GEMMCOST_H

#include "Gemm.h"

namespace mpc::cuda {

/// Estimates resources and run time of a tiling from shapes alone: the model of
/// SassTimeEstimate.h before code exists.
class GemmCost {
public:
  GemmCost(const FusedGemm &problem, const CudaTarget &target);

  /// Estimated registers per thread.
  int64_t registers(const GemmTiles &tiles) const;
  /// Returns true if the estimated registers are available.
  bool fitsRegisters(const GemmTiles &tiles) const;
  /// Shared memory available to a pipeline, in bytes.
  int64_t pipelineRoom(const GemmTiles &tiles) const;
  /// Cycles until the last multiprocessor finishes.
  double cycles(const GemmTiles &tiles) const;

private:
  /// Cycles of the row prologue of a block, with `together` blocks per
  /// multiprocessor.
  double rowCycles(const GemmTiles &tiles, double fromL2,
                   double together) const;

  const FusedGemm &problem;
  const CudaTarget &target;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_GEMMCOST_H
