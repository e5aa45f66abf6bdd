//===- SharedHeads.h - entries of a tensor that are repeated ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exporters of grouped-query attention repeat the heads of keys and values
// until there are as many as heads of the query.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_SHAREDHEADS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_SHAREDHEADS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// A number of neighbours along `axis` of `value` that are seen to be equal:
/// entries `i` and `j` are the same where `i / n == j / n`. It divides the
/// extent; 1 where nothing is known.
int64_t repeatsAlong(mlir::Value value, int64_t axis);

/// `value` with every `times`-th entry along `axis`. Needs `times` to divide
/// repeatsAlong(value, axis).
mlir::Value withoutRepeats(mlir::OpBuilder &builder, mlir::Value value,
                           int64_t axis, int64_t times);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_SHAREDHEADS_H
