//===- Float8.h - 8-bit floats on the host ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions for library GEMMs (GemmReference.h): simple, not fast.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H
#define MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H

#include "mpc/Runtime/TensorType.h"

#include <cstdint>

namespace mpc {

/// Returns the value of these bits in `type`, f8E4M3FN or f8E5M2. Exact.
float fromFloat8(uint8_t bits, ElementType type);

/// Converts `value` to `type`, rounding to nearest even; overflow and infinity
/// saturate to the largest finite value, as on GPUs. NaNs stay NaN.
uint8_t toFloat8(float value, ElementType type);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H
