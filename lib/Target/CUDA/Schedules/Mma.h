//===- Mma.h - products of a warp on the matrix units -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fragments in private arrays, their loads from tiles in shared memory, and the
// loops of mma instructions over them. Products, convolutions and attention are
// made of these. Everything is emitted as compact loops marked to be unrolled.
//
// A warp computes sums[i][j][0..3] of 16 x 8 blocks: with group = lane / 4 and
// pair = 2 * (lane % 4), words 0 and 1 are row `group`, columns `pair` and
// `pair + 1`, words 2 and 3 the same of row `group + 8`.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H

#include "Schedule.h"

#include "Target/Kernel/IndexMath.h"
#include "mpc/Dialect/Cuda/IR/CudaOps.h"

namespace mpc {

/// `value`, shown under `name` in the printed kernel; constants and values with
/// a name stay as they are.
mlir::Value named(const IndexMath &math, mlir::Value value,
                  llvm::StringRef name);

/// for (name = 0; name < count; ++name) body(name), printed with
/// `#pragma unroll`; the builder stands in the loop meanwhile. Straight code
/// for one iteration.
void unrolled(GpuKernel &kernel, int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body);

/// The elements of `array` at `indices` in its leading dimensions: a fragment
/// of a private array of fragments.
mlir::Value slotOf(GpuKernel &kernel, mlir::Value array,
                   mlir::ValueRange indices);

/// `extents` neighbours in the last dimensions of `memory` from `at` on, shown
/// as a pointer under `name`: what is addressed from it by constants needs no
/// arithmetic of its own.
mlir::Value partFrom(GpuKernel &kernel, mlir::Value memory, mlir::ValueRange at,
                     llvm::ArrayRef<int64_t> extents, llvm::StringRef name);

/// The block's dynamic shared memory (Schedule::sharedBytes); once per kernel.
mlir::Value dynamicShared(GpuKernel &kernel);
/// `shape` elements of `type` at byte `offset` of it, a multiple of 16.
mlir::Value sharedView(GpuKernel &kernel, mlir::Value bytes, int64_t offset,
                       llvm::ArrayRef<int64_t> shape, mlir::Type type,
                       llvm::StringRef name);

/// Where an element of a tile stands in it: [leading][line][position]. The
/// lines of a permuted tile, which four warps multiply together, have 64
/// elements of 16 bits, whose eight pieces are exchanged by the line's number;
/// a longer line is cut into several, [leading][part][line][position].
struct TilePlaces {
  static constexpr int64_t kLine = 64, kPiece = 8;

  bool isPermuted = false;
  /// Whether lines may be longer than kLine.
  bool isCut = false;

  /// `position` may begin a piece or lie in it.
  llvm::SmallVector<mlir::Value> at(const IndexMath &math,
                                    mlir::ValueRange leading, mlir::Value line,
                                    mlir::Value position) const;
};

/// One operand of a product as a warp reads it from shared memory.
struct WarpOperand {
  /// An array whose last two dimensions are [rows][depth] with `alongDepth`,
  /// else [depth][rows]; a row is m of the left and n of the right operand.
  /// 16-bit elements with rows at multiples of 16 bytes, or f32.
  mlir::Value tile;
  bool alongDepth = true;
  /// Indices of the dimensions in front (a stage of a pipeline).
  llvm::SmallVector<mlir::Value> leading;
  /// Where the warp's rows begin.
  mlir::Value row;
  TilePlaces places;

  /// The element of a row of the tile.
  llvm::SmallVector<mlir::Value> at(const IndexMath &math, mlir::Value ofRow,
                                    mlir::Value k) const {
    return alongDepth ? places.at(math, leading, ofRow, k)
                      : places.at(math, leading, k, ofRow);
  }
};

/// Products of one warp on the matrix units. f32 tiles are rounded to tf32 as
/// they are read.
class WarpMma {
public:
  WarpMma(GpuKernel &kernel, cuda::FragmentType type)
      : kernel(kernel), type(type) {}

  /// Extent along k of one instruction: 16, or 8 for tf32.
  int64_t depth() const { return type == cuda::FragmentType::tf32 ? 8 : 16; }

  /// Private arrays: [blocks of 16 rows][4 words], [blocks of 8 columns][2],
  /// [blocks of rows][blocks of columns][4 sums].
  mlir::Value leftFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value rightFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value sums(int64_t rowBlocks, int64_t columnBlocks,
                   llvm::StringRef name);
  /// Sets every element of a private f32 array to `value`.
  void fill(mlir::Value array, float value);

  /// Loads the fragments that stand at `k` (a multiple of depth()) of `from`.
  void loadLeft(mlir::Value fragments, const WarpOperand &from, mlir::Value k);
  void loadRight(mlir::Value fragments, const WarpOperand &from, mlir::Value k);

  /// sums[i][j] += left[i] * right[j].
  void multiply(mlir::Value sums, mlir::Value left, mlir::Value right);

  /// The whole product over `extent` (a multiple of depth()) of two tiles.
  void accumulate(mlir::Value sums, mlir::Value left, mlir::Value right,
                  const WarpOperand &a, const WarpOperand &b, int64_t extent);

  mlir::Value lane();
  /// lane / 4 and 2 * (lane % 4).
  mlir::Value group();
  mlir::Value pair();

private:
  void loadWord(mlir::Value fragments, mlir::Value block, int64_t word,
                const WarpOperand &from, mlir::Value row, mlir::Value k);
  /// Where the lane's part of the tiles of `rows` rows at `k` begins: `low` and
  /// `high` are its place in the outer and in the last dimension.
  mlir::Value matrixFrom(const WarpOperand &from, mlir::Value k,
                         mlir::Value low, mlir::Value high, int64_t rows,
                         llvm::StringRef name);
  /// Indices of row `row` of that.
  llvm::SmallVector<mlir::Value> inMatrix(const WarpOperand &from,
                                          mlir::Value row);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  cuda::FragmentType type;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H
