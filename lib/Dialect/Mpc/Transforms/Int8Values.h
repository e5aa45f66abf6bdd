//===- Int8Values.h - predicates of 8-bit integer values --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_INT8VALUES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_INT8VALUES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

namespace mpc {

/// Returns true if the elements are 8-bit integers, signed or unsigned.
inline bool isByte(mlir::Value value) {
  mlir::Type type = mlir::getElementTypeOrSelf(value.getType());
  return type.isInteger(8) || type.isUnsignedInteger(8);
}

/// Returns true if the element type represents all 8-bit values and their
/// differences: a signed integer of at least 16 bits.
inline bool holdsDifferences(mlir::Value value) {
  auto type =
      mlir::dyn_cast<mlir::IntegerType>(mlir::getElementTypeOrSelf(value));
  return type && !type.isUnsigned() && type.getWidth() >= 16;
}

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_INT8VALUES_H
