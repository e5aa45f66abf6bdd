//===- QuantizedCacheRows.h - rows of a quantized KV cache ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_QUANTIZEDCACHEROWS_H
#define MPC_ANALYSIS_QUANTIZEDCACHEROWS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mpc {

/// Dequantized rows of an 8-bit KV cache: a tensor that is the product of 8-bit
/// numbers and one scale per row of the last dimension, after ops that move
/// whole rows or convert between floats.
struct QuantizedCacheRows {
  /// Matches such a product; nullopt otherwise.
  static std::optional<QuantizedCacheRows> of(mlir::Value tensor);

  /// Returns true if a conversion rounds the products.
  bool isRounded() const;

  /// The numbers in f32, and the scales with a last extent of 1.
  mlir::Value numbers, scales;
  /// Ops from the tensor back to the numbers.
  llvm::SmallVector<mlir::Operation *> chain;
};

} // namespace mpc

#endif // MPC_ANALYSIS_QUANTIZEDCACHEROWS_H
