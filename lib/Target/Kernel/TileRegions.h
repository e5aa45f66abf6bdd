//===- TileRegions.h - regions of tile ops in other code --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_TILEREGIONS_H
#define MPC_LIB_TARGET_KERNEL_TILEREGIONS_H

#include "LoopKernels.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// The region of `join` applied to `x` and `y`: scalars, or vectors of one
/// width, lane by lane.
Carried applyJoin(mlir::OpBuilder &builder, tile::JoinOp join,
                  mlir::ValueRange x, mlir::ValueRange y);

/// Moves the ops of a region's block, but for its terminator, to the builder's
/// place, its arguments replaced; returns what the terminator yields.
Carried moveBody(mlir::OpBuilder &builder, mlir::Region &region,
                 mlir::ValueRange arguments);

/// Whether all that a walk carries are sums in f32.
bool addsUp(tile::WalkOp walk);

/// Makes the code of several items of `ops`, the code of the one with number
/// `item` in the order of its block: each op is followed by those of items
/// `others` (defined before `ops`), and a walk goes for all. The items do not
/// depend on each other, nor do theirs lie over what another reads. The first
/// walk fetches what it reads `ahead` elements farther on; 0: nothing.
void interleaveItems(mlir::OpBuilder &builder,
                     llvm::ArrayRef<mlir::Operation *> ops, mlir::Value item,
                     mlir::ValueRange others, int64_t ahead);

/// Replaces walks, joins and what items keep, all below `root`, by the loops of
/// one worker; `allocate` gives memory that is the worker's own. tile.own
/// stays.
void lowerTilesToLoops(
    mlir::Operation *root, const ElementTarget &target,
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, llvm::ArrayRef<int64_t>,
                                   mlir::Type)>
        allocate);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_TILEREGIONS_H
