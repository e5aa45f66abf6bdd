//===- LineProduct.h - few rows by narrow weights ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matmul of up to eight rows whose right side is an mpc.dequantize of a
// matrix: each column is a line of narrow numbers, which some lanes of a warp
// read in pieces of 16 bytes and unpack in registers. The rows stand in shared
// memory meanwhile. Every weight is read once, by one thread, so that nothing
// is gained by tiles; as tokens of a decoder are multiplied, the memory
// decides.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_LINEPRODUCT_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_LINEPRODUCT_H

#include "Gemm.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

namespace mpc {

/// Narrow weights of which each column is a line.
struct WeightLines {
  /// nullopt where `matrix` is something else, or where pieces of a line begin
  /// at no multiples of a word.
  static std::optional<WeightLines> of(mlir::Value matrix);

  /// MLIR's accessors are not const.
  mutable DequantizeOp narrow;
  /// Lines and their positions, positions that share a scale, bits of one.
  int64_t count = 0, depth = 0, group = 0, bits = 0;
  /// What a thread loads at once; of one scale.
  int64_t pieceBytes = 0;

  int64_t piece() const { return pieceBytes * 8 / bits; }
  int64_t pieces() const { return depth / piece(); }
  int64_t words() const { return pieceBytes / 4; }
  int64_t perWord() const { return 32 / bits; }
  /// Whether a line has several scales.
  bool isGrouped() const { return narrow.getScale() && group < depth; }
};

/// How the lines are dealt. Kept in the schedule under these names.
struct LineTiles {
  /// Columns of a thread, lanes that share one, warps of a block.
  int64_t columns = 0, lanes = 0, warps = 0;

  int64_t threads() const { return 32 * warps; }
  int64_t warpColumns() const { return 32 / lanes * columns; }
  int64_t blockColumns() const { return warps * warpColumns(); }

  static LineTiles of(const Schedule &schedule);
  void addTo(Schedule &schedule) const;
};

struct LineProduct {
  /// The product that `kernel` is made around; nullopt where it is another.
  static std::optional<LineProduct> of(mlir::func::FuncOp kernel,
                                       const CudaTarget &target);

  GemmProblem problem;
  WeightLines lines;

  /// The rows in shared memory: [pieces][rows][a piece and what keeps lanes in
  /// different banks].
  llvm::SmallVector<int64_t, 3> rowsShape() const;
  int64_t rowsBytes() const;
  /// Behind them the sums of a block: [rows][columns] of f32.
  int64_t sharedBytes(const LineTiles &tiles) const;
  /// As GemmRows makes the rows.
  GemmTiles rowTiles(const LineTiles &tiles) const;

  /// All ways to deal the lines, and what one takes in cycles.
  std::vector<LineTiles> candidates(const CudaTarget &target) const;
  double cycles(const LineTiles &tiles, const CudaTarget &target) const;
  Schedule scheduleWith(const LineTiles &tiles) const;
};

/// The numbers that a word of weights holds, as f32 without their scale;
/// `zero`: the zero point of all, f32, null where the weights have none of each
/// group.
llvm::SmallVector<mlir::Value> numbersOfWord(GpuKernel &kernel,
                                             const WeightLines &lines,
                                             mlir::Value word,
                                             mlir::Value zero);

/// Its body.
mlir::LogicalResult emitLineProduct(GpuKernel &kernel,
                                    const LineProduct &product);

std::unique_ptr<KernelFamily> createLineFamily();

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_LINEPRODUCT_H
