//===- IndexingRules.h - how ops move the last dimension --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_INDEXINGRULES_H
#define MPC_LIB_TARGET_KERNEL_INDEXINGRULES_H

#include "LoopKernels.h"

namespace mpc {

/// `range`, moved by `by` positions.
inline LaneRange shift(LaneRange range, int64_t by) {
  return {range.begin + by, range.end + by};
}

/// Whether neighbours along the last of the result's `rank` dimensions are
/// neighbours of the operand.
inline bool keepsLanes(llvm::ArrayRef<AccessDim> access, int64_t rank) {
  return access.empty() ? rank == 0
                        : access.back().dim == rank - 1 &&
                              std::abs(access.back().stride) == 1;
}
/// Where `range` of the result stands in the operand, if lanes are kept.
inline LaneRange rangeBehind(llvm::ArrayRef<AccessDim> access,
                             LaneRange range) {
  if (access.empty())
    return range;
  int64_t offset = access.back().offset;
  return access.back().stride > 0
             ? shift(range, offset)
             : LaneRange{offset + 1 - range.end, offset + 1 - range.begin};
}

/// Whether a gather's result ends in a dimension of its input.
bool gathersWholeRows(mlir::Operation *op);

/// Where `op`, a gather or scatter, has an index check, leaves `raw`, number
/// `component` of an index along `extent`, in its word if it is out of range.
void emitIndexCheck(ElementEmitter &emitter, mlir::Operation *op,
                    mlir::Value raw, int64_t extent, int64_t component = 0);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_INDEXINGRULES_H
