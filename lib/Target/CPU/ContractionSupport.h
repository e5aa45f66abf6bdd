//===- ContractionSupport.h - packing and epilogues -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels around one contraction share: operands brought into the form
// that the micro-kernel reads, and sums carried through the epilogue to the
// outputs.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_CONTRACTIONSUPPORT_H
#define MPC_LIB_TARGET_CPU_CONTRACTIONSUPPORT_H

#include "../Kernel/ElementEmitter.h"
#include "../Kernel/IndexMath.h"
#include "../Kernel/StoredResults.h"
#include "KernelEmitters.h"
#include "MicroKernel.h"

namespace mpc {

/// A run of consecutive positions, emitted as one vector.
struct Chunk {
  int64_t offset, lanes;
  /// Positions that count; fewer than `lanes` asks for a mask.
  int64_t used;
};

/// Cuts `count` positions into vectors of at most `most` lanes: masked where
/// the target masks cheaply, else in descending powers of two.
llvm::SmallVector<Chunk> chunksOf(int64_t count, int64_t most,
                                  const CpuTarget &target);

/// The constant mask of `chunk`, or null where all lanes count.
mlir::Value maskOf(mlir::OpBuilder &builder, mlir::Location loc,
                   const Chunk &chunk);

/// Interleaves: vectors[i][j] becomes result[j][i]. As many vectors as lanes, a
/// power of two.
llvm::SmallVector<mlir::Value> transposeVectors(mlir::OpBuilder &builder,
                                                mlir::Location loc,
                                                mlir::ValueRange vectors);

/// The rows of one block of a RowSplit whose number is known at run time.
class BlockRows {
public:
  BlockRows(const IndexMath &math, const RowSplit &split, mlir::Value block);

  mlir::Value first() const { return firstRow; }
  mlir::Value count() const { return choose(split.rows + 1, split.rows); }
  /// `ofLarge` where the block has a row more, else `ofOthers`.
  mlir::Value choose(int64_t ofLarge, int64_t ofOthers) const;
  /// Runs `body` with the number of rows, in a branch where sizes differ.
  void with(llvm::function_ref<void(int64_t rows)> body) const;

private:
  IndexMath math;
  RowSplit split;
  mlir::Value firstRow;
  /// Whether the block has a row more; null where all are alike.
  mlir::Value isLarge;
};

/// Runs `body` with the columns of panel `number` of the `panels` that `extent`
/// columns lie in, in a branch where the last panel has fewer than `columns`.
void withPanelColumns(const IndexMath &math, mlir::Value number, int64_t panels,
                      int64_t columns, int64_t extent,
                      llvm::function_ref<void(int64_t used)> body);

/// One kernel around the contraction `anchor`.
class ContractionKernel {
public:
  ContractionKernel(mlir::func::FuncOp kernel, mlir::func::FuncOp impl,
                    mlir::Operation *anchor, const CpuTarget &target);

  /// StoredResults::check.
  mlir::LogicalResult checkResults() const { return stored.check(); }

  /// The memref in which `tensor` lies: a kernel argument or a reshape of one;
  /// null for computed tensors. Reshapes keep the argument's memref type.
  mlir::Value memoryOf(mlir::Value tensor) const;

  /// An emitter that knows the kernel's arguments.
  ElementEmitter makeEmitter(mlir::OpBuilder &builder) const;

  /// `value` carried as by ElementEmitter, converted to the type of sums.
  mlir::Value toSumType(mlir::OpBuilder &builder, mlir::Value value,
                        mlir::Type sumType) const;

  /// Leading indices of a tensor for a row.
  using Indices =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value row)>;

  /// Copies `rowCount` rows of `extent` elements, from `first` on (null: 0),
  /// along the last dimension of `tensor` to `target[row * pitch]` in the type
  /// of sums.
  mlir::LogicalResult packRows(mlir::OpBuilder &builder, mlir::Value tensor,
                               Indices indices, mlir::Value rowCount,
                               int64_t extent, mlir::Value target,
                               int64_t pitch, mlir::Value first = {}) const;

  /// Copies `rows` consecutive columns from `column` on, `extent` times, to
  /// `target[k * pitch]`: for operands stored the other way round. `indices`
  /// gives the leading indices for k.
  mlir::LogicalResult packColumns(mlir::OpBuilder &builder, mlir::Value tensor,
                                  Indices indices, mlir::Value column,
                                  int64_t rows, int64_t extent,
                                  mlir::Value target, int64_t pitch) const;

  /// Copies `lanes` elements at `indices` to `target[at]` in the type of sums.
  mlir::LogicalResult copyRun(mlir::OpBuilder &builder, mlir::Value tensor,
                              mlir::ValueRange indices, int64_t lanes,
                              mlir::Value target, mlir::Value at) const;

  /// Positions of K: `count` from `first` on.
  struct DepthRange {
    mlir::Value first;
    int64_t count;
  };

  /// Packs panel number `panel` of the last two dimensions of `tensor`, `[K,
  /// N]` or with `transposed` `[N, K]`, to `target[offset + k * columns]`, k
  /// counted from the start of `range` (all of K where there is none).
  /// `leading` are the indices of the other dimensions.
  mlir::LogicalResult
  packPanel(mlir::OpBuilder &builder, mlir::Value tensor,
            mlir::ValueRange leading, bool transposed, mlir::Value panel,
            int64_t columns, mlir::Value target, mlir::Value offset,
            std::optional<DepthRange> range = std::nullopt) const;

  /// Takes `columns` sums of each of `rowCount` rows from `tile[row * pitch]`
  /// through the epilogue to the outputs. `indices` gives the result's indices
  /// for a row, without the column dimension `columnDim`; columns begin at
  /// `column`.
  mlir::LogicalResult storeTile(mlir::OpBuilder &builder, mlir::Value tile,
                                int64_t pitch, mlir::Value rowCount,
                                Indices indices, unsigned columnDim,
                                mlir::Value column, int64_t columns) const;

  mlir::func::FuncOp kernel, impl;
  ImplArguments arguments;
  mlir::Operation *anchor;
  CpuTarget target;

private:
  StoredResults stored;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CPU_CONTRACTIONSUPPORT_H
