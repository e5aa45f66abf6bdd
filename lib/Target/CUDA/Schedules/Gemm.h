//===- Gemm.h - products of matrices as GPU kernels -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matmul or a convolution seen as products of matrices of m rows by k and of
// n columns by k, one per batch, and the pieces that its kernel is made of:
// operands that say where their elements are, a pipeline that brings tiles of
// them to shared memory, a unit that multiplies tiles, and an epilogue.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMM_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMM_H

#include "GemmRows.h"
#include "Mma.h"
#include "StridedView.h"

#include "Target/Kernel/ElementEmitter.h"
#include "mpc/Analysis/PairedColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <vector>

namespace mpc {

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Where a chunk of an operand stands.
struct OperandPlace {
  /// Element of the argument's memory; null for computed operands.
  mlir::Value offset;
  /// Indices of the tensor; for computed operands.
  llvm::SmallVector<mlir::Value> indices;
  /// Whether it exists (i1); zeros are read where not. Null: always.
  mlir::Value inside;
};

/// One side of a product: an element for every row (m of the left side, n of
/// the right one) and k.
class GemmOperand {
public:
  virtual ~GemmOperand() = default;

  mlir::Value tensor;
  int64_t rows = 0, depth = 0;
  /// Whether neighbours in memory run along k, else along the rows.
  bool alongDepth = true;
  /// Neighbours that are read in one piece from positions that are multiples of
  /// this; divides the extent of that direction.
  int64_t chunk = 1;
  /// The kernel argument whose memory is read; null where the elements are
  /// computed.
  mlir::BlockArgument argument;
  /// Matrices that stand side by side, along the rows or along k, each in the
  /// memory of an argument; empty where there is one memory or none.
  std::vector<std::unique_ptr<GemmOperand>> parts;
  bool partsAlongRows = false;
  /// Whether elements are loaded as they lie in memory.
  bool isStored() const { return argument || !parts.empty(); }

  mlir::Type elementType() const {
    return mlir::getElementTypeOrSelf(tensor.getType());
  }
  virtual OperandPlace locate(const IndexMath &math, mlir::ValueRange batch,
                              mlir::Value row, mlir::Value k) const = 0;
  /// Elements of memory between neighbours across chunks (rows with
  /// `alongDepth`, else positions along k); nullopt where they are not the same
  /// everywhere.
  virtual std::optional<int64_t> lineStride() const { return std::nullopt; }

  /// The argument whose memory a block brings to shared memory as it lies, in
  /// vectors, to make tiles of it there; null: tiles are loaded at once. Its
  /// elements are those of `tensor`, or what those are rounded from.
  mlir::BlockArgument halo;
  /// The most elements of it, from the first to the last, that a block of so
  /// many rows and positions along k needs, and the first of them (or one in
  /// front) for the block that begins at `row` and `k`.
  virtual int64_t haloElements(int64_t /*rows*/, int64_t /*depth*/) const {
    return 0;
  }
  virtual mlir::Value haloBegin(const IndexMath &, mlir::Value /*row*/,
                                mlir::Value /*k*/) const {
    return {};
  }
  /// The position in it of an element that exists.
  virtual OperandPlace locateInHalo(const IndexMath &math,
                                    mlir::ValueRange batch, mlir::Value row,
                                    mlir::Value k) const {
    return locate(math, batch, row, k);
  }
};

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// What multiplies: 16-bit or tf32 matrix units, or fused multiply-adds of f32.
enum class GemmUnitKind { Mma16, MmaTf32, Fma };

/// A result of the kernel that is made of an operand's sums over k: those of
/// `extent` rows from `begin` on.
struct GemmSum {
  size_t output = 0;
  int64_t begin = 0, extent = 0;
};

/// The sum or mean over every image of what a depthwise convolution makes, and
/// the results of the kernel that elementwise ops make of it.
struct GemmPool {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<size_t, 2> outputs;
};

struct GemmProblem {
  mlir::Operation *anchor = nullptr;
  /// Extents over which a batch number runs.
  llvm::SmallVector<int64_t> batchShape;
  int64_t batches = 1, m = 0, n = 0, k = 0;
  std::unique_ptr<GemmOperand> lhs, rhs;
  GemmUnitKind unit = GemmUnitKind::Fma;
  /// Type of the elements in shared memory.
  mlir::Type tileType;
  /// Whether columns are the last dimension of the anchor's result.
  bool columnsLast = true;
  /// Where they are not: whether neighbouring columns still lie closer together
  /// than neighbouring rows.
  bool columnsNearer = false;
  /// Two halves of columns that the epilogue meets: a column of the result is
  /// then one of each half.
  std::optional<PairedColumns> pair;
  /// Values that the epilogue begins with, and columns of each.
  llvm::SmallVector<mlir::Value> roots() const;
  int64_t resultColumns() const { return pair ? n / 2 : n; }
  /// What is stored of the sums over k of the left or else the right operand
  /// (GemmSums.h).
  std::vector<GemmSum> sums;
  bool sumsLeft = false;
  /// What else a depthwise convolution stores; without an op: nothing.
  GemmPool pool;
  /// What makes whole rows of the left side before the first step; null: its
  /// tiles are loaded step by step.
  std::unique_ptr<GemmRows> rows;
  /// Indices of the anchor's result, of a pair's halves.
  std::function<llvm::SmallVector<mlir::Value>(
      const IndexMath &, mlir::ValueRange batch, mlir::Value row,
      mlir::Value column)>
      resultIndices;

  /// The product that `kernel` is made around (a matmul); null where it has
  /// none or one of types that no unit multiplies.
  static std::optional<GemmProblem> matmul(mlir::func::FuncOp kernel,
                                           const CudaTarget &target);
  /// The same for a convolution.
  static std::optional<GemmProblem> convolution(mlir::func::FuncOp kernel,
                                                const CudaTarget &target);
  /// The same for the gradient of a convolution's filter (FilterProblem.h).
  static std::optional<GemmProblem> filterGradient(mlir::func::FuncOp kernel,
                                                   const CudaTarget &target);
};

/// Leaves halos to operands that could not be copied to tiles as they are.
void keepHalos(GemmProblem &problem, const CudaTarget &target);

/// The one contraction of a kernel; null where it has none or several.
mlir::Operation *soleContraction(mlir::func::FuncOp kernel);

/// The unit and tile type for operands of type `element`; false where there is
/// none.
bool chooseUnit(mlir::Type element, mlir::Type result, ComputeMode compute,
                const CudaTarget &target, GemmProblem &problem);

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

/// What becomes of the sums on their way to the outputs: elementwise ops,
/// transposes, reshapes, slices, a place among other parts of a concat.
class GemmEpilogue {
public:
  /// nullopt where an output is something else. Runs of columns begin at
  /// multiples of their length in `columns` (the problem's n for 0).
  static std::optional<GemmEpilogue> of(mlir::func::FuncOp kernel,
                                        const GemmProblem &problem,
                                        int64_t columns = 0);

  /// Columns that are computed together.
  int64_t lanes = 1;
  /// Whether neighbours in the first output's memory are rows.
  bool rowsFastest = false;

  /// Stores what `sums` (f32, scalar or `lanes` columns; one of each root) give
  /// at a place of the roots.
  mlir::LogicalResult emit(GpuKernel &kernel, llvm::ArrayRef<mlir::Value> sums,
                           mlir::ValueRange indices) const;
  /// The same, and returns what they give of `wanted`, a value that elementwise
  /// ops make of the roots.
  mlir::FailureOr<mlir::Value> emitWith(GpuKernel &kernel,
                                        llvm::ArrayRef<mlir::Value> sums,
                                        mlir::ValueRange indices,
                                        mlir::Value wanted) const;
  /// Stores what a concat puts beside the roots, spread over all threads of the
  /// grid (GemmRest.cpp).
  mlir::LogicalResult emitRest(GpuKernel &kernel) const;

private:
  /// Where the element that is computed stands in each value.
  using Places = llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>>;

  GemmEpilogue(mlir::func::FuncOp kernel, const GemmProblem &problem);
  /// The indices of the same element under another shape.
  static llvm::SmallVector<mlir::Value>
  reshapeIndices(const IndexMath &math, llvm::ArrayRef<mlir::Value> indices,
                 llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

  /// The place in `value` of the element whose places in some of its parents
  /// are known.
  llvm::SmallVector<mlir::Value> placeOf(const IndexMath &math, Places &places,
                                         mlir::Value value) const;
  /// Where the elements of `part` begin along the axis of `concat`.
  static int64_t offsetIn(ConcatOp concat, mlir::Value part);
  mlir::LogicalResult emitPart(GpuKernel &kernel, ConcatOp concat,
                               mlir::Value part, int64_t offset,
                               size_t output) const;
  /// Whether `output` is computed from `step`.
  bool reaches(mlir::Value step, mlir::Value output) const;
  /// Whether an index lies in the slice that `step` is; null: always.
  static mlir::Value insideSlice(const IndexMath &math, mlir::Value step,
                                 llvm::ArrayRef<mlir::Value> place);

  mlir::Operation *anchor = nullptr;
  /// The anchor's result, or its halves.
  llvm::SmallVector<mlir::Value> roots;
  /// Numbers of the kernel's results that are made of the anchor's.
  llvm::SmallVector<size_t> outputs;
  /// Reshapes, slices and concats that the result reaches, in order: what goes
  /// into them is emitted before what comes out.
  llvm::SmallVector<mlir::Value> steps;
  /// For every value reached the operand that it comes from; null for roots.
  llvm::DenseMap<mlir::Value, mlir::Value> parents;
};

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Bytes that a thread brings of a halo at once.
inline constexpr int64_t kHaloVectorBytes = 16;

/// How a product is cut. Kept in the schedule under these names.
struct GemmTiles {
  int64_t m = 0, n = 0, k = 0, warpsM = 1, warpsN = 1, stages = 1;
  /// Blocks that share one tile of the result, each a part of k; the last one
  /// to finish adds up.
  int64_t splits = 1;
  /// Whether four warps multiply 64 rows together (wgmma), each 16 of them.
  bool warpgroups = false;
  /// Tiles of rows that blocks go through before the next columns; 0: as many
  /// as share columns well in the second-level cache.
  int64_t group = 0;

  int64_t threads() const { return warpsM * warpsN * 32; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  /// How a tile of `rows` rows of an operand lies in shared memory, free of
  /// bank conflicts: of each stage the extents, and places in them.
  llvm::SmallVector<int64_t> shapeOf(const GemmProblem &problem,
                                     const GemmOperand &operand,
                                     int64_t rows) const;
  TilePlaces placesOf(const GemmOperand &operand) const {
    return {warpgroups, warpgroups && !operand.alongDepth};
  }
  /// Steps that copies are ahead of products, and after how many further ones a
  /// product that warps only started is over: its tiles wait so long.
  int64_t behind() const { return warpgroups && stages > 2 ? 1 : 0; }
  int64_t ahead() const { return stages - 1 - behind(); }
  /// Bytes of one stage of the left tile, of the right tile, of the whole
  /// pipeline, of the warps' results between sums and epilogue.
  int64_t lhsBytes(const GemmProblem &problem) const;
  int64_t rhsBytes(const GemmProblem &problem) const;
  /// Left tiles that there is memory for: of all steps where whole rows are
  /// made at once.
  int64_t lhsStages(const GemmProblem &problem) const;
  int64_t pipelineBytes(const GemmProblem &problem) const;
  /// Elements and bytes that a block keeps of an operand's halo; 0: it has
  /// none, or one that is too large.
  int64_t haloElements(const GemmProblem &problem,
                       const GemmOperand &operand) const;
  int64_t haloBytes(const GemmProblem &problem,
                    const GemmOperand &operand) const;
  /// Rows of a warp's tile that are handed to the epilogue at once.
  int64_t handedRows(const GemmProblem &problem) const;
  int64_t sharedBytes(const GemmProblem &problem) const;
  /// Tiles of the result, in all batches.
  int64_t tileCount(const GemmProblem &problem) const;
  /// The scratch buffer of split products: a counter per tile, then what every
  /// block computed of its tile, then its sums of an operand; 0 without splits.
  int64_t counterBytes(const GemmProblem &problem) const;
  int64_t partialBytes(const GemmProblem &problem) const;
  int64_t scratchBytes(const GemmProblem &problem) const;

  /// All tiles that fit a problem and target, and the best of them.
  static std::vector<GemmTiles> candidates(const GemmProblem &problem,
                                           const CudaTarget &target);
  static GemmTiles choose(const GemmProblem &problem, const CudaTarget &target);
  static GemmTiles of(const Schedule &schedule);
  void addTo(Schedule &schedule) const;
};

/// The schedule of a problem's kernel; nullopt where the epilogue does
/// something else, or for too many blocks.
std::optional<Schedule> scheduleGemm(mlir::func::FuncOp kernel,
                                     const GemmProblem &problem,
                                     const GemmTiles &tiles);
/// The same with the tiles of `given`, or with those that have most numbers in
/// common with it of all that there are kernels for (KernelFamily::scheduleAs).
std::optional<Schedule> scheduleGemmAs(mlir::func::FuncOp kernel,
                                       const GemmProblem &problem,
                                       const CudaTarget &target,
                                       const Schedule &given);
/// Its body.
mlir::LogicalResult emitGemm(GpuKernel &kernel, const GemmProblem &problem);

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// Multiplies the tiles of a block. A warp's sums leave it row by row.
class GemmUnit {
public:
  virtual ~GemmUnit() = default;
  /// Private arrays and zeros in the sums.
  virtual void prepare() = 0;
  /// Adds the product of two tiles, step `step` of the block.
  virtual void accumulate(const WarpOperand &lhs, const WarpOperand &rhs,
                          mlir::Value step) = 0;
  /// Waits until at most the last `pending` products are under way.
  virtual void settle(int64_t /*pending*/) {}
  /// Writes the sums of step `step` to the warp's array `slab` of [rows][warpN
  /// + padding], from row `row` on.
  virtual void deposit(mlir::Value step, mlir::Value slab, mlir::Value warp,
                       mlir::Value row) = 0;
  /// Rows of the slab that one step writes.
  virtual int64_t rowsPerStep() const = 0;
  /// The row of the warp's tile that row `row` of all steps' rows is.
  virtual mlir::Value rowOf(mlir::Value row) = 0;
};

std::unique_ptr<GemmUnit> makeMmaUnit(GpuKernel &kernel, const GemmTiles &tiles,
                                      cuda::FragmentType type);
std::unique_ptr<GemmUnit> makeWarpgroupUnit(GpuKernel &kernel,
                                            const GemmTiles &tiles,
                                            cuda::FragmentType type);
std::unique_ptr<GemmUnit> makeFmaUnit(GpuKernel &kernel,
                                      const GemmProblem &problem,
                                      const GemmTiles &tiles);

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMM_H
