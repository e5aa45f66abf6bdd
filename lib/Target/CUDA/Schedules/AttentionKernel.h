//===- AttentionKernel.h - parts of attention kernels -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes some query rows of one head and walks over the keys in
// tiles: scores, mask, softmax and the product with the values in one pass,
// with a running maximum and total per row. Two forms differ in who multiplies:
// threads with fma, or warps on the matrix units.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H

#include "Schedule.h"
#include "StridedView.h"

#include "Target/Kernel/IndexMath.h"
#include "Target/Kernel/MathExpansion.h"
#include "Target/Kernel/StoredResults.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

/// The extents of one attention op.
struct AttentionSizes {
  explicit AttentionSizes(AttentionOp op);

  /// Extents in front of query and of key; the last one counts heads.
  llvm::SmallVector<int64_t> queryHeads, keyHeads;
  /// All heads of the query; its rows; positions of key and value; extents of a
  /// key and of a value.
  int64_t heads, length, positions, depth, width;
};

/// The type in which products are summed and the softmax runs.
mlir::Type attentionSumType(AttentionOp op);

/// The attention op of a kernel, null where it has none or more than one, or
/// stores what no form can.
AttentionOp attentionOf(mlir::func::FuncOp kernel);

/// One kernel while its body is written.
class AttentionKernel {
public:
  AttentionKernel(GpuKernel &kernel, AttentionOp op);

  /// Finds the block's place: rows of `rows` in one head, and columns of the
  /// value in pieces of `columns`.
  void placeBlock(int64_t rows, int64_t columns);
  /// One past the last position that rows before `rowEnd` look at.
  mlir::Value keyEnd(mlir::Value rowEnd);

  /// A piece of query, key or value that a block keeps in shared memory; behind
  /// the operand's rows and columns stand zeros.
  struct Tile {
    mlir::Value tensor;
    /// The head.
    mlir::ValueRange leading;
    mlir::Value firstRow, firstColumn;
    /// Memory whose last two dimensions are rows and columns (at least
    /// `columns`), and the indices in front of them.
    mlir::Value memory;
    llvm::SmallVector<mlir::Value> at;
    int64_t rows, columns;
  };
  /// Copies a tile with all threads of the block; a barrier has to follow.
  mlir::LogicalResult fill(const Tile &tile);
  /// The same by asynchronous copies (asyncBytes).
  void copyAsync(const Tile &tile);
  /// Bytes that one asynchronous copy of an operand moves; 0 where it has to be
  /// loaded element by element.
  static int64_t asyncBytes(mlir::Value tensor);

  /// `score` times the scale (where `scaled`), with the mask's value or minus
  /// infinity where the mask drops it. Row and column may lie outside. Null,
  /// with a diagnostic, where the mask cannot be generated.
  mlir::Value masked(mlir::Value score, mlir::Value row, mlir::Value column,
                     bool scaled = true);
  /// `score`, or minus infinity outside the operands and behind the diagonal.
  mlir::Value bounded(mlir::Value score, mlir::Value row, mlir::Value column);

  /// Takes `values` of one row from `column` on through the epilogue. Row and
  /// column lie inside.
  mlir::LogicalResult store(mlir::Value values, mlir::Value row,
                            mlir::Value column, int64_t lanes);
  /// The most neighbours of a row that can be stored at once.
  int64_t storeLanes(int64_t most);

  ElementEmitter makeEmitter();
  /// `value` exchanged with the lane whose number differs in `flip`.
  mlir::Value shuffleXor(mlir::Value value, int64_t flip);
  mlir::Value load(mlir::Value memory, mlir::ValueRange at) {
    return mlir::memref::LoadOp::create(b, kernel.loc, memory, at);
  }
  void store(mlir::Value value, mlir::Value memory, mlir::ValueRange at) {
    mlir::memref::StoreOp::create(b, kernel.loc, value, memory, at);
  }

  GpuKernel &kernel;
  AttentionOp op;
  AttentionSizes sizes;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  StoredResults results;
  mlir::Type sumType;
  /// The block's place.
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value firstRow, firstColumn, thread;

private:
  /// The chunks of a tile, spread over the threads: `body(row, column)` of
  /// each.
  void eachChunk(const Tile &tile, int64_t lanes,
                 llvm::function_ref<void(mlir::Value, mlir::Value)> body);
  /// Whether a chunk at row and column lies inside; null where all do.
  mlir::Value isInside(const Tile &tile, mlir::Value row, mlir::Value column);
  /// The argument's memory as one dimension, and an element's place there.
  mlir::Value flatMemory(const StridedView &view);
  mlir::Value placeIn(const StridedView &view, mlir::ValueRange indices);
};

/// The body of the two forms.
mlir::LogicalResult emitAttentionByFma(AttentionKernel &attention);
mlir::LogicalResult emitAttentionByMma(AttentionKernel &attention);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_ATTENTIONKERNEL_H
