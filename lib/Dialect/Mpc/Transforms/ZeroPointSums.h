//===- ZeroPointSums.h - filter sums without padding ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_ZEROPOINTSUMS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_ZEROPOINTSUMS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Tensor.h"

namespace mpc {
class ConvOp;

/// Sums, for each output channel and position of `op`, the filter elements that
/// do not read padding; i32, [channels, spatial...].
reference::Tensor filterSumsInside(ConvOp op, const reference::Tensor &filter);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_ZEROPOINTSUMS_H
