//===- Reducers.h - reducers of reduction ops -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums, products, extrema and argmax as reducers, independent of the loop.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_REDUCERS_H
#define MPC_LIB_TARGET_KERNEL_REDUCERS_H

#include "LoopKernels.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// A reduction as an accumulator: initial values (scalars), the step for an
/// element, the combination of two accumulators, and the op's result.
struct Reducer {
  Carried initial;
  llvm::StringRef name;
  tile::NamedReduction joining = tile::NamedReduction::any;
  std::function<Carried(const ReductionLoop::Place &, mlir::ValueRange)> body;
  std::function<Carried(mlir::ValueRange, mlir::ValueRange)> join;
  std::function<mlir::Value(mlir::ValueRange)> finish;
};

/// Returns true for a reduce op, argmax or argmin.
bool isReducing(mlir::Operation *op);
/// Returns the reducer of such an op; creates constants at the insertion point.
Reducer reducerOf(ElementEmitter &emitter, mlir::Operation *op);

/// Returns the types that a thread carries for a reduce op, or for the argmax
/// among `length` positions.
llvm::SmallVector<mlir::Type> partialTypes(mlir::Operation *op, int64_t length);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_REDUCERS_H
