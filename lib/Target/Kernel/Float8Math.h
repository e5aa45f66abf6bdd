//===- Float8Math.h - conversion of 8-bit floats ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_FLOAT8MATH_H
#define MPC_LIB_TARGET_KERNEL_FLOAT8MATH_H

#include "MathExpansion.h"

namespace mpc {

/// Decodes codes (i8) of 8-bit floats to f32 (Support/Float8.h).
mlir::Value decodeFloat8(ValueMath &math, mlir::Value code,
                         bool mayBeNaN = true);
/// Encodes f32 numbers.
mlir::Value encodeFloat8(ValueMath &math, mlir::Value x);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_FLOAT8MATH_H
