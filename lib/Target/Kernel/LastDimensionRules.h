//===- LastDimensionRules.h - propagation of the last dimension -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_LASTDIMENSIONRULES_H
#define MPC_LIB_TARGET_KERNEL_LASTDIMENSIONRULES_H

#include "LoopKernels.h"

namespace mpc {

/// Returns `range` shifted by `by` positions.
inline LaneRange shift(LaneRange range, int64_t by) {
  return {range.begin + by, range.end + by};
}

/// Returns true if neighbors along the last of the result's `rank` dimensions
/// are neighbors in the operand.
inline bool keepsLanes(llvm::ArrayRef<AccessDim> access, int64_t rank) {
  return access.empty() ? rank == 0
                        : access.back().dim == rank - 1 &&
                              std::abs(access.back().stride) == 1;
}
/// Returns the range in the operand of `range` of the result, if lanes are
/// preserved.
inline LaneRange rangeBehind(llvm::ArrayRef<AccessDim> access,
                             LaneRange range) {
  if (access.empty())
    return range;
  int64_t offset = access.back().offset;
  return access.back().stride > 0
             ? shift(range, offset)
             : LaneRange{offset + 1 - range.end, offset + 1 - range.begin};
}

/// Returns true if a gather's result ends in a dimension of its input.
bool gathersWholeRows(mlir::Operation *op);

/// If `op`, a gather or scatter, has an index check, stores `raw`, component
/// `component` of an index along `extent`, in its word if it is out of range.
void emitIndexCheck(ElementEmitter &emitter, mlir::Operation *op,
                    mlir::Value raw, int64_t extent, int64_t component = 0);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_LASTDIMENSIONRULES_H
