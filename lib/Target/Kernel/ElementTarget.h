//===- ElementTarget.h - what element code needs to know --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H
#define MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H

#include "mlir/IR/Builders.h"

#include <functional>

namespace mpc {

/// The facts about a target that shape the code for elements of tensors.
/// Cheap to copy.
struct ElementTarget {
  /// 32-bit lanes of the widest vector, and vectors that fit into registers.
  int64_t lanes = 8, registers = 16;
  /// Whether full vectors are scaled by powers of two in one instruction
  /// (AVX-512's vscalef).
  bool hasScalef = false;
  /// Whether full vectors of f32 are rounded to bf16 in one instruction, which
  /// takes subnormal numbers as 0 (AVX-512 BF16's vcvtneps2bf16).
  bool roundsToBf16 = false;
  /// Whether words of two full vectors are permuted as cheaply as one vector's
  /// are extended (vpermt2w: one operation on AMD's cores, three on Intel's).
  bool permutesWords = false;
  /// Whether f16 and bf16 are types of values that convert to f32 and back;
  /// else bf16 is handled as bit patterns.
  bool has16BitTypes = false;
  /// Whether vectors in memory must be aligned to their whole size; those that
  /// are not known to be are moved element by element.
  bool alignedVectors = false;
  /// Whether a kernel's scratch memory belongs to one caller of items alone;
  /// else items keep nothing there.
  bool privateScratch = true;
  /// Builds the call of a mathematical function that the target has by name
  /// (exp, expm1, log, log1p, pow, rem, sin, ..., sigmoid, softplus, erf, gelu,
  /// geluTanh): one or two arguments, result and arguments of one f32 or f64
  /// type, scalar or vector. geluBfloat16 and geluHalf are gelu where its
  /// result is seen in that type alone. Null: functions are expanded into
  /// arithmetic.
  using Call = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                         llvm::StringRef, mlir::ValueRange)>;
  Call call;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H
