//===- EmulatedArithmetic.h - arithmetic of emulated units ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common steps of the emulations of vector instructions and AMX tiles.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_EMULATEDARITHMETIC_H
#define MPC_LIB_TARGET_CPU_EMULATEDARITHMETIC_H

#include "../Kernel/MathExpansion.h"
#include "MicroKernel.h"

namespace mpc::cpu {

/// Replaces subnormal f32 numbers by zeros of their sign.
inline mlir::Value flushSubnormals(ValueMath &math, mlir::Value value) {
  mlir::Value bits = math.bits(value);
  mlir::Value isSmall = math.compare(mlir::arith::CmpIPredicate::eq,
                                     math.bitAnd(bits, 0x7f800000), 0);
  mlir::Value zero = math.bitAnd(bits, int64_t(0x80000000));
  return math.fromBits(math.select(isSmall, zero, bits), value.getType());
}

/// Returns the lower or upper f16 of words, as f32.
inline mlir::Value halfOf(ValueMath &math, bool isUpper, mlir::Value words) {
  mlir::Value bits = isUpper ? math.shiftRight(words, 16) : words;
  mlir::Builder builder(words.getContext());
  bits = math.truncateInt(bits, builder.getI16Type());
  return math.extendFloat(math.fromBits(bits, builder.getF16Type()),
                          builder.getF32Type());
}

/// Returns sum + x * y, rounded once to nearest even, with x and y the lower or
/// upper bf16 or f16 of words; subnormal bf16 and f32 inputs and results count
/// as zeros.
inline mlir::Value multiplyAddHalves(ValueMath &math, bool isF16, bool isUpper,
                                     mlir::Value x, mlir::Value y,
                                     mlir::Value sum) {
  auto half = [&](mlir::Value word) {
    if (isF16)
      return halfOf(math, isUpper, word);
    mlir::Value bits = isUpper ? math.bitAnd(word, int64_t(0xffff0000))
                               : math.shiftLeft(word, 16);
    return flushSubnormals(math, math.fromBits(bits, sum.getType()));
  };
  return flushSubnormals(
      math, math.fma(half(x), half(y), flushSubnormals(math, sum)));
}

/// Adds the products of the integers of `bits` bits in words to sums, modulo
/// 2^32. Intel's manual: VPDPBUSD and TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD for
/// bytes, VPMADDWD with VPADDD for signed words.
inline mlir::Value addDots(mlir::OpBuilder &b, mlir::Location loc,
                           mlir::Value x, mlir::Value y, mlir::Value sum,
                           int64_t bits, OperandSigns signs) {
  ValueMath math(b, loc);
  for (int64_t at = 0; at < 32; at += bits) {
    auto factor = [&](mlir::Value words, bool isSigned) {
      mlir::Value top = math.shiftLeft(words, 32 - bits - at);
      return isSigned ? math.shiftRightSigned(top, 32 - bits)
                      : math.shiftRight(top, 32 - bits);
    };
    sum = math.add(sum,
                   math.mul(factor(x, signs.rows), factor(y, signs.columns)));
  }
  return sum;
}

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_EMULATEDARITHMETIC_H
