//===- Bytes.h - what is exact of 8-bit integers --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_BYTES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_BYTES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpc {

/// Whether the elements of `value` are 8-bit integers, signed or not.
inline bool isByte(mlir::Value value) {
  mlir::Type type = mlir::getElementTypeOrSelf(value.getType());
  return type.isInteger(8) || type.isUnsignedInteger(8);
}

/// Whether the elements' type has all bytes and their differences: unsigned and
/// narrow integers wrap.
inline bool holdsDifferences(mlir::Value value) {
  auto type =
      mlir::dyn_cast<mlir::IntegerType>(mlir::getElementTypeOrSelf(value));
  return type && !type.isUnsigned() && type.getWidth() >= 16;
}

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_BYTES_H
