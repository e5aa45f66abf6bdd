//===- Dequantized.h - integers that floats were made of --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Tensor.h"

#include <optional>

namespace mpc {

/// The constant behind reshapes and widening casts of integers.
std::optional<reference::Tensor> constantTensor(mlir::Value value);

/// `shape` with extents of 1 before it.
llvm::SmallVector<int64_t> withRank(llvm::ArrayRef<int64_t> shape,
                                    int64_t rank);

/// A float tensor that is scale * (integers - zero), behind transposes.
struct Dequantized {
  /// `shape` with the rank of the integers, as the transposes leave it.
  llvm::SmallVector<int64_t> moved(llvm::ArrayRef<int64_t> shape) const;
  /// Whether `shape` is that of one element, or has extent `axis` of the moved
  /// tensor alone.
  bool variesAlong(llvm::ArrayRef<int64_t> shape, int64_t axis) const;

  mlir::Value integers;
  /// The integers where they are a constant of any type: as i8.
  std::optional<reference::Tensor> constant;
  /// An integer of any type, whose numbers are 8-bit ones, and what it is; null
  /// where there is none, unknown where it is no constant.
  mlir::Value zero;
  std::optional<reference::Tensor> zeroTensor, scale;
  /// Outermost first.
  llvm::SmallVector<TransposeOp> transposes;
};

/// What `value` was made of; nullopt where that are no 8-bit integers.
std::optional<Dequantized> matchDequantized(mlir::Value value);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H
