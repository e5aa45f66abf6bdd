//===- FilterSums.h - sums of what a filter reads ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_FILTERSUMS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_FILTERSUMS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Tensor.h"

namespace mpc {

/// For each output channel and position of `op` the sum of the part of its
/// filter that does not read padding; i32, [channels, spatial...].
reference::Tensor filterSumsInside(ConvOp op, const reference::Tensor &filter);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FILTERSUMS_H
