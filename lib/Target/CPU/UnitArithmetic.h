//===- UnitArithmetic.h - what units for bf16 document ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps that the emulations of vdpbf16ps and of AMX's tiles have in common.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_UNITARITHMETIC_H
#define MPC_LIB_TARGET_CPU_UNITARITHMETIC_H

#include "../Kernel/MathExpansion.h"

namespace mpc {

/// f32 numbers of which subnormal ones are zeros of their sign.
inline mlir::Value flushSubnormals(ValueMath &math, mlir::Value value) {
  mlir::Value bits = math.bits(value);
  mlir::Value isSmall = math.compare(mlir::arith::CmpIPredicate::eq,
                                     math.bitAnd(bits, 0x7f800000),
                                     math.integer(bits.getType(), 0));
  mlir::Value zero = math.bitAnd(bits, int64_t(0x80000000));
  return math.fromBits(math.select(isSmall, zero, bits), value.getType());
}

/// sum + x * y, rounded once to nearest even, where x and y are the lower or
/// upper bf16 of words; subnormal numbers count as zeros wherever they go in or
/// come out.
inline mlir::Value multiplyAddHalves(ValueMath &math, bool isUpper,
                                     mlir::Value x, mlir::Value y,
                                     mlir::Value sum) {
  auto half = [&](mlir::Value word) {
    mlir::Value bits = isUpper ? math.bitAnd(word, int64_t(0xffff0000))
                               : math.shiftLeft(word, 16);
    return flushSubnormals(math, math.fromBits(bits, sum.getType()));
  };
  return flushSubnormals(
      math, math.fma(half(x), half(y), flushSubnormals(math, sum)));
}

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_UNITARITHMETIC_H
