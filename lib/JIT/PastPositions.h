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

/// Replaces positions that `function`, an imported decoder, derives from the
/// number of its cache rows by positions computed from an additional argument
/// (CountedPositions); the argument is added only if there are such positions.
/// `longer` is the same model imported with one more row in each cache,
/// possibly in another context. Fails with a diagnostic at the op that depends
/// on the number of rows in any other way.
mlir::LogicalResult placePositions(mlir::func::FuncOp function,
                                   mlir::func::FuncOp longer,
                                   const CountedPositions &positions);

} // namespace mpc

#endif // MPC_LIB_JIT_PASTPOSITIONS_H
