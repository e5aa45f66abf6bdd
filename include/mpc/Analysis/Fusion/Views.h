//===- Views.h - zero-copy views of buffers ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that alias part of a buffer, or several adjacent buffers, without a copy.
// The fuser leaves them outside kernels; the planner allocates no memory.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FUSION_VIEWS_H
#define MPC_ANALYSIS_FUSION_VIEWS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {
class ConcatOp;
class SliceOp;

/// Alignment of every buffer and view, in bytes.
inline constexpr int64_t kBufferAlign = 64;

/// Returns the byte offset of a slice in its input if it is contiguous and
/// aligned, else nullopt.
std::optional<int64_t> contiguousOffset(SliceOp slice);

/// Returns true if a slice is a view: contiguous, of a kernel's result or of
/// the rows that an append retains from its argument.
bool isFreeSlice(SliceOp slice);

/// Returns true if a concat is a view: its operands are adjacent and aligned,
/// and each is a kernel's result that no other concat contains. The first may
/// be the rows that an append retains from its argument.
bool isFreeConcat(ConcatOp concat);

/// Returns true if a concat joins many small results of elementwise ops with no
/// other reader: one kernel is faster than a launch per part of a view.
bool concatenatesSmallLoops(ConcatOp concat);

/// Returns the argument that an in-place append updates: the concat starts with
/// rows of the argument that nothing else reads, is returned in its place, and
/// overwrites the argument's last rows with the new ones. Null if the concat is
/// no such append.
mlir::BlockArgument inPlaceAppendArgument(ConcatOp concat);

/// Returns true if `op` is a reshape, a free slice or a free concat.
bool isView(mlir::Operation *op);

} // namespace mpc

#endif // MPC_ANALYSIS_FUSION_VIEWS_H
