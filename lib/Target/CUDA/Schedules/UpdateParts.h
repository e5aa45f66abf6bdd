//===- UpdateParts.h - an update kernel in parts ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. Takes a kernel whose results have any shapes apart:
// what is computed once, and what is computed per element of one parameter and
// its state.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_UPDATEPARTS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_UPDATEPARTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace mpc {

/// A part as a function of its own.
struct UpdatePart {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  /// For each argument: the kernel's argument that it is, or a scalar that the
  /// first part computes.
  llvm::SmallVector<mlir::Value> inputs;
  /// For each result: the value of the kernel that it is.
  llvm::SmallVector<mlir::Value> outputs;
};

/// The parts of a kernel. Values are the kernel's, which must outlive them.
struct UpdateParts {
  /// Computes, of scalars (tensors of no dimension) alone, those that the other
  /// parts read, arguments among them (also those with one element in other
  /// shapes, where no part can overwrite them), and those that the kernel
  /// returns; null where there are none.
  UpdatePart scalars;
  /// Parts that share nothing but those scalars, in the order of their first
  /// results: one may overwrite what it alone reads.
  llvm::SmallVector<UpdatePart> tensors;

  /// nullopt where the kernel returns one of its arguments or a constant.
  static std::optional<UpdateParts> of(mlir::func::FuncOp kernel);
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_UPDATEPARTS_H
