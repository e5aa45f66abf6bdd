//===- TileRegions.h - lowering utilities for tile ops ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_TILEREGIONS_H
#define MPC_LIB_TARGET_KERNEL_TILEREGIONS_H

#include "LoopKernels.h"

#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {

/// Applies the region of `join` to `x` and `y`: scalars, or vectors of one
/// width, lane by lane.
Carried applyReduction(mlir::OpBuilder &builder, tile::ItemReduceOp join,
                       mlir::ValueRange x, mlir::ValueRange y);

/// Moves the ops of a region's block, except its terminator, to the insertion
/// point, with its arguments replaced; returns the yielded values.
Carried moveBody(mlir::OpBuilder &builder, mlir::Region &region,
                 mlir::ValueRange arguments);

/// Returns true if a loop carries only f32 sums.
bool addsUp(tile::ItemLoopOp walk);

/// Unrolls and jams `ops`, the code of item `item` in block order, with items
/// `others` (defined before `ops`): each op is followed by its copies, and
/// loops are shared. The items are independent and do not alias each other's
/// inputs. The first loop prefetches its inputs `ahead` elements farther; 0:
/// none.
void unrollAndJamItems(mlir::OpBuilder &builder,
                       llvm::ArrayRef<mlir::Operation *> ops, mlir::Value item,
                       mlir::ValueRange others, int64_t ahead);

/// Lowers loops, reductions and buffers of items, all below `root`, to loops of
/// one worker; `allocate` returns memory private to the worker. tile.for_each
/// remains.
void lowerTilesToLoops(
    mlir::Operation *root, const ElementTarget &target,
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, llvm::ArrayRef<int64_t>,
                                   mlir::Type)>
        allocate);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_TILEREGIONS_H
