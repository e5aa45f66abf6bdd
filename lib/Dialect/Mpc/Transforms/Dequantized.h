//===- Dequantized.h - match dequantized tensors ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Reference/Tensor.h"

#include <optional>

namespace mpc {

/// Returns the constant before reshapes and widening integer casts.
std::optional<reference::Tensor> constantTensor(mlir::Value value);

/// Pads `shape` with leading extents of 1 to `rank`.
llvm::SmallVector<int64_t> withRank(llvm::ArrayRef<int64_t> shape,
                                    int64_t rank);

/// A float tensor of the form scale * (numbers - zero), transposed or not.
struct DequantizedTensor {
  /// Returns true if the numbers are 8-bit integers.
  bool isInteger() const {
    return !mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(numbers));
  }
  /// `shape` extended to the rank of the numbers and permuted by the
  /// transposes.
  llvm::SmallVector<int64_t> moved(llvm::ArrayRef<int64_t> shape) const;
  /// Returns true if `shape`, moved, has extents of 1 except along `axis`.
  bool variesAlong(llvm::ArrayRef<int64_t> shape, int64_t axis) const;

  /// 8-bit integers, or floats decoded from at most 8 bits.
  mlir::Value numbers;
  /// Integers as i8 if they are a constant.
  std::optional<reference::Tensor> constant;
  /// Zero point with 8-bit values, in any integer type; null if absent.
  mlir::Value zero;
  std::optional<reference::Tensor> zeroTensor, scale;
  /// Transposes, outermost first.
  llvm::SmallVector<TransposeOp> transposes;
};

/// Matches a dequantized tensor of at most 8 bits; nullopt for any other value.
std::optional<DequantizedTensor> matchDequantized(mlir::Value value);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_DEQUANTIZED_H
