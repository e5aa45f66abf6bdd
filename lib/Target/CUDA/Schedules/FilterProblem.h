//===- FilterProblem.h - kernels around a filter's gradient -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_FILTERPROBLEM_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_FILTERPROBLEM_H

#include "Gemm.h"

#include "Target/Kernel/LoopKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include <optional>

namespace mpc {

/// The ops of a kernel. All but the first may be missing.
struct FilterOps {
  ConvFilterGradientOp filter;
  /// Narrows the image as it is loaded.
  CastOp narrowed;
  /// The gradient's sum over all but its channels.
  ReduceSumOp bias;
  /// Arguments, and what the results are made of.
  mlir::BlockArgument input, gradient;
  llvm::SmallVector<mlir::Operation *, 2> results;

  /// nullopt where `kernel` is something else.
  static std::optional<FilterOps> of(mlir::func::FuncOp kernel);
};

/// The ops and how their sums are shared.
struct FilterProblem {
  explicit FilterProblem(const FilterOps &ops);

  FilterOps ops;
  ConvFilterGradientOp op;
  bool channelsLast;
  int64_t batch, inputs, outputs, groupInputs, groupOutputs;
  llvm::SmallVector<int64_t> extents, positions, window;
  /// Output and input channels of a thread, threads for the filter and in all,
  /// lines of positions.
  int64_t rows, lanes, filterItems, items, lines;
  mlir::Type type;

  llvm::SmallVector<mlir::Value>
  place(mlir::Value image, mlir::Value channel,
        llvm::ArrayRef<mlir::Value> spatial) const;
};

/// Threads of a block of the form that sums in threads.
inline constexpr int64_t kFilterThreads = 128;

/// The schedule of the form that sums in threads, which takes every kernel of
/// FilterOps, and of the one that is a product of matrices; nullopt where that
/// multiplies something else.
Schedule scheduleFilterThreads(const FilterProblem &problem,
                               const CudaTarget &target);
std::optional<Schedule> scheduleFilterProduct(mlir::func::FuncOp kernel,
                                              const CudaTarget &target);
/// The one that is estimated to be faster; nullopt where `kernel` is something
/// else.
std::optional<Schedule> scheduleFilter(mlir::func::FuncOp kernel,
                                       const CudaTarget &target);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_FILTERPROBLEM_H
