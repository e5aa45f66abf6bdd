//===- Reducers.h - ops that join rows, as walks ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mathematics of sums, products, extremes and positions of extremes, for
// every walk over what they reduce.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_REDUCERS_H
#define MPC_LIB_TARGET_KERNEL_REDUCERS_H

#include "LoopKernels.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// A reducing op as a walk: what accumulators start from (scalars), how they
/// take an element, how two of them join, and the op's result.
struct Reducer {
  Carried initial;
  llvm::StringRef name;
  tile::Joining joining = tile::Joining::any;
  std::function<mlir::FailureOr<Carried>(const ReductionLoop::Place &,
                                         mlir::ValueRange)>
      body;
  std::function<Carried(mlir::ValueRange, mlir::ValueRange)> join;
  std::function<mlir::Value(mlir::ValueRange)> finish;
};

/// Whether an op reduces: a reduce op, argmax or argmin.
bool isReducing(mlir::Operation *op);
/// The walk of an op that does; constants are written at the emitter's place.
Reducer reducerOf(ElementEmitter &emitter, mlir::Operation *op);

/// The types that a member of a team carries for a reduce op, or for the
/// position of an extreme among `length`.
llvm::SmallVector<mlir::Type> partialTypes(mlir::Operation *op, int64_t length);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_REDUCERS_H
