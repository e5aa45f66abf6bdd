//===- AttentionKernel.h - common code of attention kernels -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by FlashAttention forward and backward: operands, shared-memory tiles,
// masked scores, the online softmax and the pipeline over tiles.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONKERNEL_H
#define MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONKERNEL_H

#include "../Plan/Schedule.h"
#include "../Plan/StridedView.h"

#include "Target/Kernel/AttentionMath.h"
#include "Target/Kernel/ContractionEpilogue.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

namespace mpc::cuda {

/// Operands and score formula of an attention or its gradient.
struct AttentionProblem {
  template <typename OpTy>
  explicit AttentionProblem(OpTy op)
      : query(op.getQuery()), key(op.getKey()), value(op.getValue()),
        mask(op.getMask()), scale(op.getScale().convertToDouble()),
        causal(op.getCausal()), compute(op.getCompute()) {}

  bool addsMask() const {
    return mask && isa<mlir::FloatType>(getElementTypeOrSelf(mask.getType()));
  }

  mlir::Value query, key, value;
  /// Null if there is none.
  mlir::Value mask;
  double scale;
  bool causal;
  ComputeMode compute;
};

/// Extents of one attention.
struct AttentionSizes {
  explicit AttentionSizes(const AttentionProblem &problem);

  /// Leading extents of query and key; the last one is the number of heads.
  llvm::SmallVector<int64_t> queryHeads, keyHeads;
  /// Total heads of query and key, query rows, key positions, extents of a key
  /// and of a value.
  int64_t heads, sharedHeads, length, positions, depth, width;

  /// Query heads per key head (grouped-query attention).
  int64_t share() const { return queryHeads.back() / keyHeads.back(); }

  /// Query heads whose rows, concatenated, form one tile: 1, or all that share
  /// a key head.
  int64_t grouped = 1;
  /// Number of such groups, and rows per group.
  int64_t groups() const { return heads / grouped; }
  int64_t groupRows() const { return length * grouped; }
};

/// Returns the type of accumulators and softmax.
mlir::Type attentionSumType(mlir::Value query);

class AttentionCodegen {
public:
  AttentionCodegen(GpuKernel &kernel, const AttentionProblem &problem);

  /// Returns one past the last position that rows before `rowEnd` attend to.
  mlir::Value keyEnd(mlir::Value rowEnd);

  /// A tile of an operand in shared memory, zero-padded out of bounds.
  struct Tile {
    mlir::Value tensor;
    /// Index of the head.
    mlir::ValueRange leading;
    mlir::Value firstRow, firstColumn;
    /// Memref whose last two dimensions are rows and columns (at least
    /// `columns`), and its leading indices.
    mlir::Value memory;
    llvm::SmallVector<mlir::Value> at;
    int64_t rows, columns;
    /// Type to round elements to; null: only the memory's type.
    mlir::Type rounded = {};
    /// Whether rows are those of a group of heads, of which `leading` is the
    /// first.
    bool ofGroup = false;
  };
  /// Loads a tile with all threads of the block; needs a barrier afterwards.
  /// With `isAsync` by cp.async (asyncBytes), to memory of the operand's type.
  void loadTile(const Tile &tile, bool isAsync);
  /// Returns the bytes per cp.async of an operand; 0 if unsupported.
  static int64_t asyncBytes(mlir::Value tensor);
  void waitForCopies();
  /// Loops over tiles of `rows` rows in [begin, end): `fetch` loads the tile
  /// from a first row on into a stage, `body` uses it. Double-buffered if
  /// `isAsync`.
  void pipeline(mlir::Value begin, mlir::Value end, int64_t rows, bool isAsync,
                llvm::StringRef name,
                llvm::function_ref<void(mlir::Value, mlir::Value)> fetch,
                llvm::function_ref<void(mlir::Value, mlir::Value)> body);

  /// Scales and masks the `score` of a row of the group (AttentionMath). Row
  /// and column may be out of bounds.
  mlir::Value masked(mlir::Value score, mlir::Value row, mlir::Value column);
  /// Returns `score`, or minus infinity past the last position or the diagonal.
  mlir::Value bounded(mlir::Value score, mlir::Value row, mlir::Value column);

  /// Stores the epilogue of `values`, elements of a result's row from `at` on.
  void store(const ContractionEpilogue &results, mlir::Value values,
             mlir::ValueRange at);
  /// Returns the maximum vector length of these stores, at most 16 bytes of
  /// accumulators.
  int64_t storeLanes(const ContractionEpilogue &results, mlir::Value result);

  ElementEmitter makeEmitter();
  mlir::Value constant(double value) { return values.constant(sumType, value); }
  mlir::Value load(mlir::Value memory, mlir::ValueRange at, int64_t lanes = 1) {
    return math.load(memory, at, lanes);
  }
  void store(mlir::Value value, mlir::Value memory, mlir::ValueRange at) {
    math.store(value, memory, at);
  }
  /// Builds a vector; a scalar of one lane.
  mlir::Value vectorOf(llvm::ArrayRef<mlir::Value> elements);

  GpuKernel &kernel;
  AttentionProblem problem;
  AttentionSizes sizes;
  mlir::OpBuilder &b;
  IndexMath math;
  MathExpansion values;
  AttentionMath formula;
  mlir::Type sumType;
  /// Current query head, or first of its group, and its key head.
  llvm::SmallVector<mlir::Value> head, keyHead;
  mlir::Value thread;
  /// Failure, after a diagnostic, if an operand or a result is unsupported.
  mlir::LogicalResult status = mlir::success();

protected:
  /// Maps row `row` of a group to a head and a row of it.
  std::pair<llvm::SmallVector<mlir::Value>, mlir::Value>
  placeInGroup(mlir::Value row);
  /// Sets `head` and `keyHead` for a query head or group by its index.
  void placeHead(mlir::Value number);
  /// Returns the named indices of a head.
  llvm::SmallVector<mlir::Value> headAt(mlir::Value number,
                                        llvm::ArrayRef<int64_t> extents);
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_ATTENTION_ATTENTIONKERNEL_H
