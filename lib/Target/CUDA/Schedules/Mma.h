//===- Mma.h - warp-level GEMM on tensor cores ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fragments in private arrays, ldmatrix loads from shared memory, and loops of
// mma.sync over them; used by GEMM, convolution and attention. Emitted as
// compact loops marked for unrolling.
//
// Accumulator layout of 16 x 8 blocks sums[i][j][0..3]: with group = lane / 4
// and pair = 2 * (lane % 4), words 0 and 1 are row `group`, columns `pair` and
// `pair + 1`, words 2 and 3 the same of row `group + 8`.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H

#include "Schedule.h"

#include "Target/Kernel/IndexMath.h"
#include "mpc/Dialect/Cuda/IR/CudaOps.h"

namespace mpc::cuda {

/// Names `value` in the printed kernel, unless it is a constant or has a name.
mlir::Value named(const IndexMath &math, mlir::Value value,
                  llvm::StringRef name);

/// for (name = 0; name < count; ++name) body(name), printed with `#pragma
/// unroll`; sets the insertion point to the loop body. A single iteration is
/// emitted without a loop.
void unrolled(GpuKernel &kernel, int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body);

/// Returns the type in which fragments of `element` (f32, f16, bf16) multiply.
FragmentType fragmentTypeOf(mlir::Type element);

/// Returns the subview at `indices` in the leading dimensions: a fragment of an
/// array of fragments.
mlir::Value slotOf(GpuKernel &kernel, mlir::Value array,
                   mlir::ValueRange indices);

/// Returns a subview of `extents` in the last dimensions at `at`, printed as a
/// pointer `name`: constant offsets from it need no arithmetic.
mlir::Value partFrom(GpuKernel &kernel, mlir::Value memory, mlir::ValueRange at,
                     llvm::ArrayRef<int64_t> extents, llvm::StringRef name);

/// Returns the block's dynamic shared memory (Schedule::sharedBytes); once per
/// kernel.
mlir::Value dynamicShared(GpuKernel &kernel);
/// Returns a view of `shape` elements at byte `offset`, a multiple of 16.
mlir::Value sharedView(GpuKernel &kernel, mlir::Value bytes, int64_t offset,
                       llvm::ArrayRef<int64_t> shape, mlir::Type type,
                       llvm::StringRef name);

/// Layout of a shared-memory tile: [leading][line][position]. A swizzled tile
/// (wgmma, 128-byte swizzle) has lines of 64 16-bit elements whose eight
/// 16-byte chunks are xored with the line number; longer lines are split,
/// [leading][part][line][position].
struct TileLayout {
  static constexpr int64_t kLine = 64, kPiece = 8;

  bool isPermuted = false;
  /// Whether lines may be longer than kLine.
  bool isCut = false;

  /// Returns the indices of an element; `position` may be inside a chunk.
  llvm::SmallVector<mlir::Value> at(const IndexMath &math,
                                    mlir::ValueRange leading, mlir::Value line,
                                    mlir::Value position) const;
};

/// One operand in shared memory, as read by a warp.
struct WarpOperand {
  /// Array with last dimensions [rows][depth] if `alongDepth`, else
  /// [depth][rows]; rows are m of the left, n of the right operand. 16-bit
  /// elements with 16-byte-aligned lines, or f32.
  mlir::Value tile;
  bool alongDepth = true;
  /// Indices of the leading dimensions (pipeline stage).
  llvm::SmallVector<mlir::Value> leading;
  /// First row of the warp.
  mlir::Value row;
  TileLayout places;

  /// Returns the indices of an element by row and k.
  llvm::SmallVector<mlir::Value> at(const IndexMath &math, mlir::Value ofRow,
                                    mlir::Value k) const {
    return alongDepth ? places.at(math, leading, ofRow, k)
                      : places.at(math, leading, k, ofRow);
  }
};

/// GEMM of one warp on tensor cores. f32 tiles are rounded to tf32 on load.
class WarpMma {
public:
  WarpMma(GpuKernel &kernel, cuda::FragmentType type)
      : kernel(kernel), type(type) {}

  /// K of one instruction: 16, or 8 for tf32.
  int64_t depth() const { return type == cuda::FragmentType::tf32 ? 8 : 16; }

  /// Private arrays: [16-row blocks][4 words], [8-column blocks][2 words], [row
  /// blocks][column blocks][4 accumulators].
  mlir::Value leftFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value rightFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value sums(int64_t rowBlocks, int64_t columnBlocks,
                   llvm::StringRef name);
  /// Sets every element of a private f32 array to `value`.
  void fill(mlir::Value array, float value);

  /// Loads the fragments at `k` (a multiple of depth()) of `from`.
  void loadLeft(mlir::Value fragments, const WarpOperand &from, mlir::Value k);
  void loadRight(mlir::Value fragments, const WarpOperand &from, mlir::Value k);

  /// sums[i][j] += left[i] * right[j].
  void multiply(mlir::Value sums, mlir::Value left, mlir::Value right);

  /// Multiplies two tiles over `extent` (a multiple of depth()).
  void accumulate(mlir::Value sums, mlir::Value left, mlir::Value right,
                  const WarpOperand &a, const WarpOperand &b, int64_t extent);

  mlir::Value lane();
  /// lane / 4 and 2 * (lane % 4).
  mlir::Value group();
  mlir::Value pair();

private:
  void loadWord(mlir::Value fragments, mlir::Value block, int64_t word,
                const WarpOperand &from, mlir::Value row, mlir::Value k);
  /// Returns the lane's ldmatrix address for tiles of `rows` rows at `k`; `low`
  /// and `high` are its indices in the outer and the last dimension.
  mlir::Value matrixFrom(const WarpOperand &from, mlir::Value k,
                         mlir::Value low, mlir::Value high, int64_t rows,
                         llvm::StringRef name);
  /// Returns the indices of row `row` relative to that.
  llvm::SmallVector<mlir::Value> inMatrix(const WarpOperand &from,
                                          mlir::Value row);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  cuda::FragmentType type;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_MMA_H
