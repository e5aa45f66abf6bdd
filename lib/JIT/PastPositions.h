//===- PastPositions.h - positions from the length of the past --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_PASTPOSITIONS_H
#define MPC_LIB_JIT_PASTPOSITIONS_H

#include "mpc/JIT/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Replaces the positions that `function`, an imported decoder, derives from
/// the number of rows of its caches by ones that follow from a further
/// argument (CountedPositions), which is added only where there are such.
/// `longer` is the same model imported with one more row in each cache; it may
/// be of another context. Fails with a diagnostic at the op that reads
/// something else that depends on the number of rows.
mlir::LogicalResult placePositions(mlir::func::FuncOp function,
                                   mlir::func::FuncOp longer,
                                   const CountedPositions &positions);

} // namespace mpc

#endif // MPC_LIB_JIT_PASTPOSITIONS_H
