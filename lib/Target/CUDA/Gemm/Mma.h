//===- Mma.h - warp-level GEMM on tensor cores ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fragments in private arrays, ldmatrix loads from shared memory, and loops of
// mma.sync over them; used by GEMM, convolution and attention. Emitted as
// compact loops marked for unrolling.
//
// Accumulators are 16 x 8 blocks sums[i][j][0..3] in the layout
// MatrixUnit::sums().
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_MMA_H
#define MPC_LIB_TARGET_CUDA_GEMM_MMA_H

#include "../Plan/Schedule.h"

#include "../MatrixUnits.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

namespace mpc::cuda {

/// Names `value` in the printed kernel, unless it is a constant or has a name.
mlir::Value named(const IndexMath &math, mlir::Value value,
                  llvm::StringRef name);

/// for (name = 0; name < count; ++name) body(name), printed with `#pragma
/// unroll`, or `#pragma unroll factor`; sets the insertion point to the loop
/// body. A single iteration is emitted without a loop.
void unrolled(GpuKernel &kernel, int64_t count, llvm::StringRef name,
              llvm::function_ref<void(mlir::Value)> body, int64_t factor = 0);

/// Calls `body` with the indices of every element of a private array, in
/// unrolled loops.
void eachElement(GpuKernel &kernel, mlir::Value array,
                 llvm::function_ref<void(llvm::ArrayRef<mlir::Value> at)> body);
/// Sets every element of a private floating-point array.
void fill(GpuKernel &kernel, mlir::Value array, double value);

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
/// (wgmma, 128-byte swizzle) has lines of 128 bytes whose eight 16-byte chunks
/// are xored with the line number; longer lines are split,
/// [leading][part][line][position].
struct TileLayout {
  /// Elements of `bytes` bytes of a line, and of a chunk.
  static constexpr int64_t lineOf(int64_t bytes) { return 128 / bytes; }
  static constexpr int64_t pieceOf(int64_t bytes) { return 16 / bytes; }
  static constexpr int64_t kPieces = 8;

  bool isPermuted = false;
  /// Whether lines may be longer than 128 bytes.
  bool isCut = false;
  /// Size of an element: 1 or 2 bytes if permuted.
  int64_t bytes = 2;

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
  TileLayout places = {};

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
  /// `rightType`: element type of the right operand if it differs from the
  /// unit's, else null.
  WarpMma(GpuKernel &kernel, const MatrixUnit &unit, mlir::Type rightType = {})
      : unit(unit), rightType(rightType), kernel(kernel) {}

  const MatrixUnit &unit;
  mlir::Type rightType;

  /// K of one instruction.
  int64_t depth() const { return unit.k; }

  /// Private arrays: [16-row blocks][4 words], [8-column blocks][2 words], [row
  /// blocks][column blocks][4 accumulators].
  mlir::Value leftFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value rightFragments(int64_t blocks, llvm::StringRef name);
  mlir::Value sums(int64_t rowBlocks, int64_t columnBlocks,
                   llvm::StringRef name);
  /// Loads the fragments at `k` (a multiple of depth()) of `from`.
  void loadLeft(mlir::Value fragments, const WarpOperand &from, mlir::Value k);
  void loadRight(mlir::Value fragments, const WarpOperand &from, mlir::Value k);

  /// Loads the element at `row`, `column` and rounds it to tf32, or packs the
  /// elements of a word along k.
  mlir::Value loadWord(const WarpOperand &from, mlir::Value row, mlir::Value k);

  /// One instruction, on a fragment of each array.
  void multiplyBlock(mlir::Value sums, mlir::Value left, mlir::Value right);
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
  /// Loads fragments of `rows` rows element by element.
  void loadElements(mlir::Value fragments, const WarpOperand &from,
                    mlir::Value k, const FragmentLayout &layout, int64_t rows);
  /// Whether ldmatrix loads fragments; it transposes 16-bit elements only.
  bool hasMatrixLoads(const WarpOperand &from) const {
    return unit.perWord() == 2 || (unit.perWord() > 2 && from.alongDepth);
  }
  /// Loads `words` matrices of 8 rows or, transposed, columns at `row` of the
  /// lane's address `tiles`.
  void loadMatrices(mlir::Value words, const WarpOperand &from,
                    mlir::Value tiles, mlir::Value row);
  /// Returns the lane's ldmatrix address for the first `words` words of
  /// `layout` at `k`, and for those of further matrices within `rows` rows.
  mlir::Value matrixFrom(const WarpOperand &from, mlir::Value k,
                         const FragmentLayout &layout, int64_t words,
                         int64_t rows, llvm::StringRef name);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_MMA_H
