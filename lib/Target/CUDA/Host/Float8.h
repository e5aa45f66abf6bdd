//===- Float8.h - floats of 8 bits on the host ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of library products (GemmReference.h) alone: slow, and written to be
// read.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H
#define MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H

#include "mpc/Runtime/TensorType.h"

#include <cstdint>

namespace mpc {

/// The number with these bits in `type`, f8E4M3FN or f8E5M2. Exact.
float fromFloat8(uint8_t bits, ElementType type);

/// The bits of `value` in `type`: to nearest, ties to even; what is too large,
/// infinity too, becomes the largest finite number, as GPUs convert. NaN stays.
uint8_t toFloat8(float value, ElementType type);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_HOST_FLOAT8_H
