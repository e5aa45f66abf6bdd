//===- RepeatedHeads.h - repeated KV heads ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exporters of grouped-query attention repeat key and value heads to match the
// number of query heads.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_REPEATEDHEADS_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_REPEATEDHEADS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

/// Returns the largest detected n such that entries `i` and `j` along `axis`
/// are equal if `i / n == j / n`. Divides the extent; 1 if unknown.
int64_t repeatCountAlong(mlir::Value value, int64_t axis);

/// Takes every `times`-th entry of `value` along `axis`. `times` must divide
/// repeatCountAlong(value, axis).
mlir::Value dropRepeats(mlir::OpBuilder &builder, mlir::Value value,
                        int64_t axis, int64_t times);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_REPEATEDHEADS_H
