//===- StoredPanels.h - narrow forms as constants ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_STOREDPANELS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_STOREDPANELS_H

#include "mpc/Analysis/NarrowForm.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <optional>

namespace mpc {

/// What an mpc.dequantize reads.
struct StoredPanels {
  /// Constants beside `constant`, for a form of its numbers in panels of these
  /// extents: [P, K, C], or [P, K] of one column.
  static StoredPanels make(ConstantOp constant, const NarrowForm &form,
                           llvm::ArrayRef<int64_t> panels);

  /// The numbers again, as `element`.
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Type element) const;

  mlir::Value values, scale, zero;
  bool areNibbles = false, areFloats = false;
  int64_t commonZero = 0, depth = 1;
  /// Of all constants.
  int64_t bytes = 0;
};

/// The numbers of a constant of f32, bf16 or f16, in its order; nullopt where
/// the data cannot be read.
std::optional<std::vector<float>> numbersOf(ConstantOp constant);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_STOREDPANELS_H
