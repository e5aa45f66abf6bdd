//===- InPlace.h - in-place results of kernels ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Proves when a kernel may write a result to the memory of one of its inputs.
// mpc-plan establishes the proof, the exe verifier repeats it, and code
// generation relies on it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_INPLACE_H
#define MPC_DIALECT_EXE_IR_INPLACE_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::exe {

/// Kernel attribute: the arguments (i64 array of indices) that some launch
/// overwrites with a result. Code for such a kernel
/// - computes results of one shape together, each element once and by one
/// thread, which reads every argument at that element before it writes any
/// result there (vectors do not overlap), and
/// - does not assume that results and these arguments are disjoint in memory.
inline constexpr llvm::StringLiteral kInPlaceAttr = "exe.in_place";

/// Returns true if code of `target` ("cuda:sm_90a") for a kernel of `kind`
/// stores rank-0 results after all other work: update kernels on GPUs, in the
/// last block.
bool writesScalarsLast(FusionKind kind, const TargetInfo &target);

/// Returns true if `result` may overwrite `argument` in a launch of `kernel`, a
/// function on tensors, under the rules above. Sufficient condition: every op
/// is elementwise, a reshape, broadcast, slice, pad, concat, iota or constant,
/// in update kernels also a sum or mean that is not broadcast; both have
/// equally many elements of equal size; the argument is read only at the same
/// element (through elementwise ops and reshapes) by results of the shape of
/// `result`. With `scalarsLast` also: both have rank 0, and the result depends
/// only on scalars. Linear in the number of ops.
bool mayWriteInPlace(mlir::func::FuncOp kernel, unsigned argument,
                     unsigned result, bool scalarsLast = false);

/// Returns true if `kernel` is marked for `argument`.
bool isWrittenInPlace(mlir::func::FuncOp kernel, unsigned argument);
/// Marks `kernel` for `argument`.
void setWrittenInPlace(mlir::func::FuncOp kernel, unsigned argument);

} // namespace mpc::exe

#endif // MPC_DIALECT_EXE_IR_INPLACE_H
