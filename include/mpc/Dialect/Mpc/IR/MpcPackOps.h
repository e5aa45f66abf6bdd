//===- MpcPackOps.h - packing and quantization ops --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCPACKOPS_H
#define MPC_DIALECT_MPC_IR_MPCPACKOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Support/NarrowFloat.h"

namespace mpc {
/// Returns the format of a float type of 4 to 8 bits, or null if `type` is none
/// that mpc.encode_float supports.
const NarrowFloat *narrowFloatOf(mlir::Type type);
} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h.inc"

#endif // MPC_DIALECT_MPC_IR_MPCPACKOPS_H
