//===- FilterGradientProblem.h - filter gradient analysis -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_CONVOLUTION_FILTERGRADIENTPROBLEM_H
#define MPC_LIB_TARGET_CUDA_CONVOLUTION_FILTERGRADIENTPROBLEM_H

#include "../Gemm/Gemm.h"

#include "Target/Kernel/LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include <optional>

namespace mpc::cuda {

/// Ops of a kernel. All but the first are optional.
struct FilterGradientOps {
  ConvFilterGradientOp filter;
  /// Conversion of the image to low precision on load.
  CastOp narrowed;
  /// Sum of the gradient over all dimensions but channels.
  ReduceSumOp bias;
  /// Arguments, and the ops that define the results.
  mlir::BlockArgument input, gradient;
  llvm::SmallVector<mlir::Operation *, 2> results;

  /// Returns nullopt for other kernels.
  static std::optional<FilterGradientOps> of(mlir::func::FuncOp kernel);
};

/// The ops and the distribution of their sums over threads.
struct FilterGradientProblem {
  explicit FilterGradientProblem(const FilterGradientOps &ops);

  FilterGradientOps ops;
  ConvFilterGradientOp op;
  bool channelsLast;
  int64_t batch, inputs, outputs, groupInputs, groupOutputs;
  llvm::SmallVector<int64_t> extents, positions, window;
  /// Output and input channels per thread, work items (threads) of the filter
  /// and in total, rows of output positions.
  int64_t rows, lanes, filterItems, items, lines;
  mlir::Type type;

  llvm::SmallVector<mlir::Value>
  place(mlir::Value image, mlir::Value channel,
        llvm::ArrayRef<mlir::Value> spatial) const;
};

/// Schedules the direct variant.
Schedule scheduleDirectFilter(const FilterGradientProblem &problem,
                              const CudaTarget &target);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_CONVOLUTION_FILTERGRADIENTPROBLEM_H
