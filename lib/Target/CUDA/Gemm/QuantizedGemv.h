//===- QuantizedGemv.h - GEMV with quantized weights ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skinny GEMM (GEMV): a matmul of up to eight rows by an mpc.dequantize of a
// weight matrix. Each output column is one contiguous line of quantized
// weights, which several lanes of a warp read in 16-byte chunks and unpack in
// registers; the rows are in shared memory. Every weight is read once, by one
// thread, so tiling gains nothing; a decoder's token generation is bound by
// memory bandwidth.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_QUANTIZEDGEMV_H
#define MPC_LIB_TARGET_CUDA_GEMM_QUANTIZEDGEMV_H

#include "Gemm.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

namespace mpc::cuda {

/// Quantized weights with one contiguous line per output column.
struct QuantizedWeightRows {
  /// Returns nullopt if `matrix` is not quantized, or if chunks of a line are
  /// not word-aligned.
  static std::optional<QuantizedWeightRows> of(mlir::Value matrix);

  /// MLIR's accessors are not const.
  mutable DequantizeOp narrow;
  /// Number of lines, elements per line, elements per scale, bits per element.
  int64_t count = 0, depth = 0, group = 0, bits = 0;
  /// Bytes per load (chunk), with a single scale.
  int64_t pieceBytes = 0;

  int64_t piece() const { return pieceBytes * 8 / bits; }
  int64_t pieces() const { return depth / piece(); }
  int64_t words() const { return pieceBytes / 4; }
  int64_t perWord() const { return 32 / bits; }
  /// Whether weights have offsets, so that each is scaled before it is
  /// multiplied; otherwise sums are scaled.
  bool hasOffset() const { return bool(narrow.getOffset()); }
  /// Whether a line has several scales of sums.
  bool isGrouped() const {
    return narrow.getScale() && !hasOffset() && group < depth;
  }
};

/// Distribution of the lines over threads: parameters of the schedule.
struct QuantizedGemvTiles {
  /// Columns per thread, lanes per column, warps per block.
  int64_t columns = 0, lanes = 0, warps = 0;

  int64_t threads() const { return 32 * warps; }
  int64_t warpColumns() const { return 32 / lanes * columns; }
  int64_t blockColumns() const { return warps * warpColumns(); }

  static void map(auto &tiles, auto field) {
    field("columns", tiles.columns);
    field("lanes", tiles.lanes);
    field("warps", tiles.warps);
  }
};

struct QuantizedGemv {
  /// Analyzes `kernel`; nullopt if it is not such a GEMM.
  static std::optional<QuantizedGemv> of(mlir::func::FuncOp kernel,
                                         const CudaTarget &target);

  FusedGemm problem;
  QuantizedWeightRows lines;

  /// Shape of the rows in shared memory: [chunks][rows][chunk + padding against
  /// bank conflicts].
  llvm::SmallVector<int64_t, 3> rowsShape() const;
  int64_t rowsBytes() const;
  /// Followed by the accumulators of a block: [rows][columns] of f32.
  int64_t sharedBytes(const QuantizedGemvTiles &tiles) const;
  /// Tiling for the row prologue (GemmRowPrologue).
  GemmTiles rowTiles(const QuantizedGemvTiles &tiles) const;

  /// All valid distributions, and the estimated cycles of one.
  std::vector<QuantizedGemvTiles> candidates(const CudaTarget &target) const;
  double cycles(const QuantizedGemvTiles &tiles,
                const CudaTarget &target) const;
  Schedule scheduleWith(const QuantizedGemvTiles &tiles) const;
};

/// Unpacks the weights of a word as f32, without scale; `zero`: a zero point
/// per group, f32, null if there is none.
llvm::SmallVector<mlir::Value> numbersOfWord(GpuKernel &kernel,
                                             const QuantizedWeightRows &lines,
                                             mlir::Value word,
                                             mlir::Value zero);

/// Generates the kernel's body.
mlir::LogicalResult emitQuantizedGemv(GpuKernel &kernel,
                                      const QuantizedGemv &product,
                                      const GemmEpilogue &epilogue);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_QUANTIZEDGEMV_H
