//===- UpdatePartition.h - partition of an update kernel --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Partitions a kernel with results of any shapes into scalar computations and
// independent computations of one parameter and its states. Private to this
// folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_TRAINING_UPDATEPARTITION_H
#define MPC_LIB_TARGET_CUDA_TRAINING_UPDATEPARTITION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace mpc::cuda {

/// A part, outlined as a function.
struct UpdatePart {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  /// For each argument, the kernel's argument or a scalar of the first part.
  llvm::SmallVector<mlir::Value> inputs;
  /// For each result, the kernel's value.
  llvm::SmallVector<mlir::Value> outputs;
};

/// The parts of a kernel. Values are the kernel's, which must outlive them.
struct UpdatePartition {
  /// Computes, from scalars (rank-0 tensors) alone, the scalars that other
  /// parts read or the kernel returns, including arguments (also one-element
  /// arguments of other shapes that no part may overwrite); null if there are
  /// none.
  UpdatePart scalars;
  /// Parts that share nothing but those scalars, in the order of their first
  /// results: each may overwrite inputs that only it reads.
  llvm::SmallVector<UpdatePart> tensors;

  /// Returns nullopt if the kernel returns an argument or a constant.
  static std::optional<UpdatePartition> of(mlir::func::FuncOp kernel);
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_TRAINING_UPDATEPARTITION_H
