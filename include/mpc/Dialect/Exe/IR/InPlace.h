//===- InPlace.h - results over a kernel's inputs ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When a kernel may write a result to the memory of one of its inputs: the
// proof that mpc-plan makes, the exe verifier repeats and emitters rely on.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_INPLACE_H
#define MPC_DIALECT_EXE_IR_INPLACE_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::exe {

/// On a kernel: the numbers (i64 array) of the arguments that some launch lets
/// a result lie exactly over. Code for such a kernel
/// - computes the results of one shape together, each element by one work item
///   and once, which reads every argument at that element before it writes any
///   result there (no vector overlaps the one before), and
/// - does not assume that the memory of results and of these arguments is
/// apart.
inline constexpr llvm::StringLiteral kInPlaceAttr = "exe.in_place";

/// Whether code of `target` ("cuda:sm_90a") for a kernel of `kind` stores
/// results of no dimension behind everything else that the launch does: update
/// kernels on GPUs, whose last block does it.
bool storesScalarsLast(FusionKind kind, const TargetInfo &target);

/// Whether `result` may lie over `argument` in a launch of `kernel`, a function
/// on tensors, under the rules above. Sufficient: every op of the kernel is
/// elementwise, a reshape, a broadcast, a slice, a pad, a concat, an iota or a
/// constant, in update kernels also a sum or mean whose result is not
/// broadcast; both have as many elements of as many bytes; and the argument is
/// read at the same element only (through elementwise ops and reshapes), by
/// results of the same shape as `result`. With `scalarsLast` also: both have no
/// dimension, and the result is made of scalars. Linear in the kernel's ops.
bool mayWriteInPlace(mlir::func::FuncOp kernel, unsigned argument,
                     unsigned result, bool scalarsLast = false);

/// Whether `kernel` is marked for `argument`.
bool isWrittenInPlace(mlir::func::FuncOp kernel, unsigned argument);
/// Marks it.
void setWrittenInPlace(mlir::func::FuncOp kernel, unsigned argument);

} // namespace mpc::exe

#endif // MPC_DIALECT_EXE_IR_INPLACE_H
