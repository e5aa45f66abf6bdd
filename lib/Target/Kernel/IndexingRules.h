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

/// Whether a gather's result ends in a dimension of its input.
bool gathersWholeRows(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_INDEXINGRULES_H
