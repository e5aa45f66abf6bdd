//===- Views.h - ops that move nothing --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which ops only name a part of a buffer, or several that lie side by side. The
// fuser leaves these outside kernels, and the planner gives them no memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_VIEWS_H
#define MPC_ANALYSIS_FUSION_VIEWS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// Every buffer and every view starts at a multiple of this many bytes.
inline constexpr int64_t kBufferAlign = 64;

/// The first byte of a slice in its input where it is one contiguous, aligned
/// piece; nullopt otherwise.
std::optional<int64_t> contiguousOffset(SliceOp slice);

/// Whether a slice is a view: contiguous, of a value that a kernel computes, or
/// what an append leaves of its argument.
bool isFreeSlice(SliceOp slice);

/// Whether a concat is a view: its operands lie one after the other, each
/// starts aligned, and each is a kernel's result that no other operand shares.
/// The first may be what an append leaves of its argument.
bool isFreeConcat(ConcatOp concat);

/// Whether a concat joins many small results of elementwise ops that nothing
/// else reads: one kernel computes them all in less time than as many launches
/// take that each store a part of a view.
bool joinsSmallLoops(ConcatOp concat);

/// The argument in whose place the concat's result is returned and whose first
/// rows, which nothing else reads, the concat begins with: what stands behind
/// them is written over the argument's last rows. Null where the concat is no
/// such append.
mlir::BlockArgument appendedTo(ConcatOp concat);

/// Whether `op` is a reshape, a free slice or a free concat.
bool isView(mlir::Operation *op);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_VIEWS_H
