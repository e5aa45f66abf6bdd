//===- Gemm.h - GEMM and implicit GEMM kernels ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matmul, or a convolution as implicit GEMM: batched products of m x k and n
// x k matrices. Components of a kernel: operands (address computation), a
// pipeline that loads tiles into shared memory, a unit that multiplies tiles,
// and an epilogue.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_GEMM_GEMM_H
#define MPC_LIB_TARGET_CUDA_GEMM_GEMM_H

#include "../Plan/KernelPlan.h"
#include "../Plan/StridedView.h"
#include "GemmRowPrologue.h"
#include "Mma.h"

#include "Target/Kernel/ElementEmitter.h"
#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <vector>

namespace mpc {
class ConcatOp;
} // namespace mpc

namespace mpc::cuda {

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Location of a chunk of an operand.
struct OperandLocation {
  /// Element offset in the argument's memory; null for computed operands.
  mlir::Value offset;
  /// Tensor indices; for computed operands.
  llvm::SmallVector<mlir::Value> indices;
  /// Whether the chunk is in bounds (i1), else zeros are loaded. Null: always.
  mlir::Value inside;
};

/// One operand of a GEMM: an element for every row (m of the left-hand, n of
/// the right-hand side) and k.
class GemmOperand {
public:
  virtual ~GemmOperand() = default;

  mlir::Value tensor;
  int64_t rows = 0, depth = 0;
  /// Whether k, rather than rows, is the contiguous direction.
  bool alongDepth = true;
  /// Vector length of loads, in elements, at multiples of itself; divides the
  /// extent of the contiguous direction.
  int64_t chunk = 1;
  /// The kernel argument that is loaded; null if the elements are computed.
  mlir::BlockArgument argument;

  mlir::Type elementType() const {
    return mlir::getElementTypeOrSelf(tensor.getType());
  }
  virtual OperandLocation locate(const IndexMath &math, mlir::ValueRange batch,
                                 mlir::Value row, mlir::Value k) const = 0;
  /// Stride, in elements, between adjacent chunks across the contiguous
  /// direction (rows with `alongDepth`, else k); nullopt if not constant.
  virtual std::optional<int64_t> lineStride() const { return std::nullopt; }
};

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// A kernel result that sums an operand over k, for `extent` rows from `begin`
/// on (the bias gradient).
struct GemmOperandSum {
  size_t output = 0;
  int64_t begin = 0, extent = 0;
};

/// Global pooling after a depthwise convolution: a sum or mean over each image,
/// and the results that are elementwise in it.
struct GlobalPooling {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<size_t, 2> outputs;
};

struct FusedGemm {
  mlir::Operation *anchor = nullptr;
  /// Shape of the batch dimensions.
  llvm::SmallVector<int64_t> batchShape;
  int64_t batches = 1, m = 0, n = 0, k = 0;
  std::unique_ptr<GemmOperand> lhs, rhs;
  /// mma.sync, which tiles may replace by wgmma, or fma.
  const MatrixUnit *unit = nullptr;
  /// Element type of tiles in shared memory.
  mlir::Type tileType;
  /// The same of the right operand if it is another 8-bit float, else null.
  mlir::Type rightType;
  /// Whether sums of 8-bit floats must be added in f32 (MatmulOp).
  bool needsF32Sums = false;
  mlir::Type tileTypeOf(const GemmOperand &operand) const {
    return rightType && &operand == rhs.get() ? rightType : tileType;
  }
  int64_t tileBytes() const { return tileType.getIntOrFloatBitWidth() / 8; }
  /// Whether columns are the last dimension of the anchor's result.
  bool columnsLast = true;
  /// If not: whether columns nevertheless have the smaller stride.
  bool columnsNearer = false;
  /// Pairs of columns combined by the epilogue (gated activations): a result
  /// column has one column of each half.
  std::optional<GatedMatmulColumns> pair;
  /// Inputs of the epilogue, with equal numbers of columns.
  llvm::SmallVector<mlir::Value> roots() const;
  int64_t resultColumns() const { return pair ? n / 2 : n; }
  /// Results that sum the left or else the right operand over k
  /// (GemmOperandSums.h).
  std::vector<GemmOperandSum> sums;
  bool sumsLeft = false;
  /// Global pooling of a depthwise convolution; no op: none.
  GlobalPooling pool;
  /// Prologue that computes whole rows of the left-hand side (norms) before the
  /// first step; null: tiles are loaded step by step.
  std::unique_ptr<GemmRowPrologue> rows;
  /// Maps to indices of the anchor's result, or of a pair's halves.
  std::function<llvm::SmallVector<mlir::Value>(
      const IndexMath &, mlir::ValueRange batch, mlir::Value row,
      mlir::Value column)>
      resultIndices;

  /// Analyzes the kernel of a matmul; nullopt if it has another contraction or
  /// types without a unit.
  static std::optional<FusedGemm> matmul(mlir::func::FuncOp kernel,
                                         const CudaTarget &target);
  /// The same for a convolution.
  static std::optional<FusedGemm> convolution(mlir::func::FuncOp kernel,
                                              const CudaTarget &target);
  /// The same for the gradient of a convolution's filter
  /// (FilterGradientProblem.h).
  static std::optional<FusedGemm> filterGradient(mlir::func::FuncOp kernel,
                                                 const CudaTarget &target);
};

/// Returns the only contraction of a kernel; null if there is none or several.
mlir::Operation *soleContraction(mlir::func::FuncOp kernel);

/// Chooses unit and tile type for operands of type `element`; returns false if
/// unsupported.
bool chooseUnit(mlir::Type element, mlir::Type result, ComputeMode compute,
                const CudaTarget &target, FusedGemm &problem);

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

/// GEMM epilogue: elementwise ops, transposes, reshapes, slices, and concats
/// with other inputs.
class GemmEpilogue {
public:
  /// Returns nullopt if an output has an unsupported op. `columns` (0: the
  /// problem's n) bounds the alignment of column vectors.
  static std::optional<GemmEpilogue>
  of(mlir::func::FuncOp kernel, const FusedGemm &problem, int64_t columns = 0);

  /// Columns per vector.
  int64_t lanes = 1;
  /// Whether rows are contiguous in the first output's memory.
  bool rowsFastest = false;

  /// Applies the epilogue to `sums` (f32 accumulators, scalar or `lanes`
  /// columns; one of each root) at the roots' `indices` and stores the results.
  mlir::LogicalResult emit(GpuKernel &kernel, llvm::ArrayRef<mlir::Value> sums,
                           mlir::ValueRange indices) const;
  /// The same, and returns the value of `wanted`, which is elementwise in the
  /// roots.
  mlir::FailureOr<mlir::Value> emitWith(GpuKernel &kernel,
                                        llvm::ArrayRef<mlir::Value> sums,
                                        mlir::ValueRange indices,
                                        mlir::Value wanted) const;
  /// Copies the other inputs of a concat, distributed over all threads of the
  /// grid.
  mlir::LogicalResult emitRest(GpuKernel &kernel) const;

private:
  /// Index of the current element in each value.
  using Places = llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>>;

  GemmEpilogue(mlir::func::FuncOp kernel, const FusedGemm &problem);
  /// Returns the indices of the same element in another shape.
  static llvm::SmallVector<mlir::Value>
  reshapeIndices(const IndexMath &math, llvm::ArrayRef<mlir::Value> indices,
                 llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

  /// Returns the index in `value` of the element whose index in some of its
  /// parents is known.
  llvm::SmallVector<mlir::Value> placeOf(const IndexMath &math, Places &places,
                                         mlir::Value value) const;
  /// Returns the offset of `part` along the axis of `concat`.
  static int64_t offsetIn(ConcatOp concat, mlir::Value part);
  mlir::LogicalResult emitPart(GpuKernel &kernel, ConcatOp concat,
                               mlir::Value part, int64_t offset,
                               size_t output) const;
  /// Returns true if `output` depends on `step`.
  bool reaches(mlir::Value step, mlir::Value output) const;
  /// Returns the condition that the index is in the slice `step`; null: always.
  static mlir::Value insideSlice(const IndexMath &math, mlir::Value step,
                                 llvm::ArrayRef<mlir::Value> place);

  mlir::Operation *anchor = nullptr;
  /// The anchor's result, or its halves.
  llvm::SmallVector<mlir::Value> roots;
  /// Indices of the kernel's results that depend on the anchor's.
  llvm::SmallVector<size_t> outputs;
  /// Reshapes, slices and concats that the results depend on, in order: their
  /// operands are emitted before them.
  llvm::SmallVector<mlir::Value> steps;
  /// For every reached value, the operand through which; null for roots.
  llvm::DenseMap<mlir::Value, mlir::Value> parents;
};

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Tiling of a GEMM: parameters of its schedule.
struct GemmTiles {
  int64_t m = 0, n = 0, k = 0, warpsM = 1, warpsN = 1, stages = 1;
  /// Split-K factor: blocks per result tile; the last-arriving one reduces.
  int64_t splits = 1;
  /// Whether warpgroups multiply 64 rows (wgmma), 16 per warp.
  bool warpgroups = false;
  /// Whether the sums of a step leave the tensor cores and are added in f32.
  bool promotes = false;

  int64_t threads() const { return warpsM * warpsN * 32; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  const MatrixUnit &unitOf(const FusedGemm &problem) const;
  /// Shape of the shared-memory tile of `rows` rows of an operand per stage,
  /// padded or swizzled to avoid bank conflicts, and its layout.
  llvm::SmallVector<int64_t> shapeOf(const FusedGemm &problem,
                                     const GemmOperand &operand,
                                     int64_t rows) const;
  TileLayout placesOf(const FusedGemm &problem,
                      const GemmOperand &operand) const {
    return {warpgroups, warpgroups && !operand.alongDepth, problem.tileBytes()};
  }
  /// Steps that an asynchronous wgmma remains in flight (its stage stays
  /// occupied), and prefetch distance of the copies, in steps.
  int64_t behind() const {
    return warpgroups && stages > 2 && !promotes ? 1 : 0;
  }
  int64_t ahead() const { return stages - 1 - behind(); }
  /// Bytes of one stage of the left tile, of the right tile, and of the whole
  /// pipeline.
  int64_t lhsBytes(const FusedGemm &problem) const;
  int64_t rhsBytes(const FusedGemm &problem) const;
  /// Stages of the left tile: all steps of k if the prologue computes whole
  /// rows.
  int64_t lhsStages(const FusedGemm &problem) const;
  int64_t pipelineBytes(const FusedGemm &problem) const;
  /// Rows of a warp's tile that are staged for the epilogue at a time.
  int64_t handedRows(const FusedGemm &problem) const;
  int64_t sharedBytes(const FusedGemm &problem) const;
  /// Number of result tiles, in all batches.
  int64_t tileCount(const FusedGemm &problem) const;
  /// Layout of the split-K scratch buffer: a counter per tile, partial tiles of
  /// every block, partial operand sums. 0 bytes without split-K.
  int64_t counterBytes(const FusedGemm &problem) const;
  int64_t partialBytes(const FusedGemm &problem) const;
  int64_t scratchBytes(const FusedGemm &problem) const;

  /// All valid tilings of a problem, and the best of them.
  static std::vector<GemmTiles> candidates(const FusedGemm &problem,
                                           const CudaTarget &target);
  static GemmTiles choose(const FusedGemm &problem, const CudaTarget &target);
  static void map(auto &tiles, auto field) {
    field("tile_m", tiles.m);
    field("tile_n", tiles.n);
    field("tile_k", tiles.k);
    field("warps_m", tiles.warpsM);
    field("warps_n", tiles.warpsN);
    field("stages", tiles.stages);
    field("splits", tiles.splits);
    field("warpgroups", tiles.warpgroups, false);
    field("promotes", tiles.promotes, false);
  }
};

/// Plan of a matmul, or of a convolution or filter gradient as implicit GEMM.
class GemmPlan : public KernelPlan {
public:
  /// Returns null without a problem or for an unsupported epilogue.
  static std::unique_ptr<GemmPlan> of(mlir::func::FuncOp kernel,
                                      const CudaTarget &target,
                                      std::optional<FusedGemm> problem);

  std::optional<Schedule> schedule() const override;
  /// Uses the tiling of `given`, or the valid tiling that shares most
  /// parameters with it.
  std::optional<Schedule> scheduleAs(const Schedule &given) const override;
  mlir::LogicalResult emit(GpuKernel &gpuKernel) const override;

  /// Returns nullopt for no tiling or too many blocks.
  std::optional<Schedule> scheduleWith(const GemmTiles &tiles) const;

  const FusedGemm problem;

private:
  GemmPlan(mlir::func::FuncOp kernel, const CudaTarget &target,
           FusedGemm problem, GemmEpilogue epilogue)
      : KernelPlan(kernel, target), problem(std::move(problem)),
        epilogue(std::move(epilogue)) {}

  GemmEpilogue epilogue;
};

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// Multiplies the tiles of a block. Accumulators are written out row by row.
class GemmUnit {
public:
  virtual ~GemmUnit() = default;
  /// Allocates and clears the accumulators.
  virtual void prepare() = 0;
  /// Multiplies two tiles, in step `step` of the block.
  virtual void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                          mlir::Value step) = 0;
  /// Waits until at most `pending` products are in flight.
  virtual void settle(int64_t /*pending*/) {}
  /// Writes the accumulators of step `step` to the warp's array `slab` of
  /// [rows][warpN + padding], from row `row` on.
  virtual void deposit(mlir::Value step, mlir::Value slab, mlir::Value warp,
                       mlir::Value row) = 0;
  /// Maps a row index over all steps to the row of the warp's tile.
  virtual mlir::Value rowOf(mlir::Value row) = 0;
};

std::unique_ptr<GemmUnit> makeUnit(GpuKernel &kernel, const FusedGemm &problem,
                                   const GemmTiles &tiles);

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_GEMM_GEMM_H
