//===- ScaledRows.h - 8-bit numbers times a scale of their row --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_SCALEDROWS_H
#define MPC_ANALYSIS_SCALEDROWS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mpc {

/// Rows as a decoder's cache of 8 bits keeps them: a tensor that is the product
/// of 8-bit numbers and a scale for each row of the last dimension, behind ops
/// that move whole rows or convert between floats.
struct ScaledRows {
  /// What `tensor` is such a product of; nothing where it is something else.
  static std::optional<ScaledRows> of(mlir::Value tensor);

  /// Whether a conversion rounds the products.
  bool isRounded() const;

  /// The numbers in f32, and the scales with a last extent of 1.
  mlir::Value numbers, scales;
  /// What makes the tensor, from it back to the numbers.
  llvm::SmallVector<mlir::Operation *> chain;
};

} // namespace mpc

#endif // MPC_ANALYSIS_SCALEDROWS_H
