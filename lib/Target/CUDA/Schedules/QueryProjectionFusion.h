//===- QueryProjectionFusion.h - query GEMM in attention --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention to existing keys, such as a decoder's cross-attention, depends on
// its query alone, which a GEMM computes. An attention block reads some rows of
// one head: with tiles of that shape the GEMM has one block per attention
// block, and both are fused, GEMM first, without recomputation.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPROJECTIONFUSION_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPROJECTIONFUSION_H

#include "Schedule.h"

namespace mpc::cuda {

struct QueryProjectionFusion {
  /// Schedule of the GEMM: each block computes the query of the attention block
  /// with the same index, with at least as many threads.
  Schedule schedule;
  /// Slowdown of the GEMM compared to its best tiling, in seconds.
  double extraSeconds = 0;

  /// Returns nullopt if `attention`, scheduled as `given`, uses argument
  /// `argument`, the only result of `product`, other than as its query in
  /// order, or if there is no such tiling.
  static std::optional<QueryProjectionFusion>
  of(mlir::func::FuncOp product, mlir::func::FuncOp attention,
     unsigned argument, const Schedule &given, const CudaTarget &target);
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_QUERYPROJECTIONFUSION_H
