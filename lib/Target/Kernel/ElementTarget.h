//===- ElementTarget.h - target properties for element code -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H
#define MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H

#include "mlir/IR/Builders.h"

#include <functional>

namespace mpc {

/// Target properties that affect the code for elements of tensors. Cheap to
/// copy.
struct ElementTarget {
  /// 32-bit lanes of the widest vector, and number of vector registers.
  int64_t lanes = 8, registers = 16;
  /// Whether one instruction scales full vectors by powers of two (AVX-512's
  /// vscalef).
  bool hasScalef = false;
  /// Whether one instruction rounds full vectors of f32 to bf16, with
  /// subnormals as 0 (AVX-512 BF16's vcvtneps2bf16).
  bool roundsToBf16 = false;
  /// Whether permuting words of two full vectors is as cheap as extending one
  /// (vpermt2w: one operation on AMD's cores, three on Intel's).
  bool permutesWords = false;
  /// Whether f16 and bf16 are types of values that convert to f32 and back;
  /// else bf16 is handled as bit patterns.
  bool has16BitTypes = false;
  /// Whether vectors in memory must be aligned to their whole size; others are
  /// moved element by element.
  bool alignedVectors = false;
  /// Whether the order of a sum along a row depends on the row's length only.
  bool canonicalSums = false;
  /// Whether a kernel's scratch memory belongs to one caller of items only;
  /// otherwise items store nothing there.
  bool privateScratch = true;
  /// Builds the call of a mathematical function that the target provides by
  /// name (exp, expm1, log, log1p, pow, rem, sin, ..., sigmoid, softplus, erf,
  /// gelu, geluTanh): one or two arguments, result and arguments of one f32 or
  /// f64 type, scalar or vector. geluBfloat16 and geluHalf are gelu for results
  /// rounded to that type. Null: functions are expanded into arithmetic.
  using Call = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                         llvm::StringRef, mlir::ValueRange)>;
  Call call;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ELEMENTTARGET_H
