//===- GemmRows.h - a product's left side made of whole rows ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product whose left operand is the norm (or softmax) of rows along k. Before
// its first step a block makes the rows of its tile, by the program of a row
// kernel (RowPlan.h) whose items are these rows, and keeps them in shared
// memory as the tiles of all steps: each element is read, normalised and
// rounded once per block.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMROWS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMROWS_H

#include "RowPlan.h"

namespace mpc {

struct GemmTiles;

class GemmRows {
public:
  /// Whether an op that maps rows has part in `operand`.
  static bool make(mlir::Value operand);
  /// The rows that `operand` of `kernel` has: `rows` of `depth` elements; null
  /// where they are not of the row form, or in another order. Results of the
  /// kernel in which `product` has no part are stored with them.
  static std::unique_ptr<GemmRows> of(mlir::func::FuncOp kernel,
                                      mlir::Operation *product,
                                      mlir::Value operand, int64_t rows,
                                      int64_t depth);

  /// The numbers of these results.
  llvm::ArrayRef<unsigned> outputs() const { return stored; }

  /// Who makes the rows of a block.
  tile::TeamAttr team(const GemmTiles &tiles) const;
  /// Makes the rows from `rowBegin` on, all of k, in `tile`: [steps][rows of a
  /// tile][pitch]. Whoever reads it waits for all threads first. Blocks whose
  /// columns begin at 0 store results.
  mlir::LogicalResult emit(GpuKernel &kernel, const GemmTiles &tiles,
                           mlir::Value rowBegin, mlir::Value columnBegin,
                           mlir::Value tile) const;

  /// Bytes that a block reads for its rows, and times that a warp waits for
  /// some of them.
  double bytes(const GemmTiles &tiles) const;
  int64_t rounds(const GemmTiles &tiles) const {
    return team(tiles).getRounds();
  }

private:
  int64_t rowsOf(const GemmTiles &tiles) const;
  RowGeometry geometry(const GemmTiles &tiles) const;
  /// Zeros behind the last position, where k ends inside a step, and in lines
  /// that no block has rows for.
  void clearEnds(GpuKernel &kernel, const GemmTiles &tiles,
                 mlir::Value tile) const;

  /// Of a kernel whose first result is the operand.
  std::unique_ptr<RowPlan> plan;
  llvm::SmallVector<unsigned> stored;
  int64_t count = 0, depth = 0;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMROWS_H
