//===- QuantizedPanels.h - constants of quantized panels --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_QUANTIZEDPANELS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_QUANTIZEDPANELS_H

#include "mpc/Analysis/LosslessEncoding.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {
class ConstantOp;

/// Minimum size in bytes of constants to compress; smaller ones stay in cache
/// between two uses.
inline constexpr int64_t kLeastCompressedBytes = 1 << 16;

/// Operands and attributes of an mpc.dequantize.
struct QuantizedPanels {
  /// Creates the constants, next to `constant`, for its values in the format
  /// that `search` finds, which the context's store remembers by `text`: it
  /// names the layout and the parameters of the search. Panel extents:
  /// [P, K, C], or [P, K] for one column. Nullopt if there is no format.
  static std::optional<QuantizedPanels>
  find(ConstantOp constant, llvm::ArrayRef<int64_t> panels,
       const std::string &text,
       llvm::function_ref<std::optional<LosslessPanels>()> search);

  /// Creates the mpc.dequantize that restores the values as `element`.
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Type element) const;

  mlir::Value values, scale, zero, offset;
  /// Factors of integer scales.
  mlir::Value scaleFactor;
  bool areNibbles = false, areFloats = false;
  int64_t commonZero = 0, depth = 1;
  /// Total size of the constants, in bytes.
  int64_t bytes = 0;

private:
  static QuantizedPanels make(ConstantOp constant, const LosslessPanels &form,
                              llvm::ArrayRef<int64_t> panels,
                              const std::string &key);
};

/// Returns the elements of an f32, bf16 or f16 constant as f32; nullopt if the
/// data is unavailable.
std::optional<std::vector<float>> constantFloats(ConstantOp constant);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_QUANTIZEDPANELS_H
