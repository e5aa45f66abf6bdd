//===- Attention.cpp - attention with an online softmax -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../MatrixUnits.h"
#include "AttentionSplitKv.h"
#include "KernelPlan.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum rows of a tile that combines heads (grouped-query attention).
static constexpr int64_t kGroupRows = 64, kGroupRowsOfDouble = 32;

/// Returns the blocks of a grid: one per row tile, column tile and head.
static int64_t countBlocks(const AttentionSizes &sizes, int64_t rows,
                           int64_t columns) {
  return sizes.groups() * llvm::divideCeil(sizes.groupRows(), rows) *
         llvm::divideCeil(sizes.width, columns);
}

static Schedule scheduleFma(AttentionOp op, const AttentionSizes &sizes,
                            const CudaTarget &target) {
  Type type = attentionSumType(op.getQuery());
  bool isDouble = type.isF64();
  Schedule schedule;
  schedule.threads = 128;
  // Vectors of 16 bytes; eight threads share 1, 2 or 4 rows.
  int64_t lanes = isDouble ? 2 : 4, groups = schedule.threads / 8;
  int64_t rowsPerThread = std::min<int64_t>(
      isDouble ? 2 : 4,
      llvm::PowerOf2Ceil(llvm::divideCeil(sizes.groupRows(), groups)));
  int64_t rows = groups * rowsPerThread, keys = 32;
  int64_t depth = std::clamp<int64_t>(llvm::alignTo(sizes.depth, lanes), lanes,
                                      isDouble ? 32 : 64);
  int64_t columns = std::min<int64_t>(llvm::alignTo(sizes.width, 8 * lanes),
                                      isDouble ? 32 : 128);
  schedule.blocks[0] = countBlocks(sizes, rows, columns);
  schedule.sharedBytes = (rows * (depth + lanes) + keys * (depth + lanes) +
                          keys * columns + rows * (keys + lanes)) *
                         (isDouble ? 8 : 4);
  AttentionSchedule parameters;
  parameters.rows = rows;
  parameters.keys = keys;
  parameters.depth = depth;
  parameters.columns = columns;
  parameters.lanes = lanes;
  parameters.grouped = sizes.grouped;
  splitKv(schedule, parameters, sizes, type, target);
  return schedule;
}

/// Returns the number of 16-bit values that a weight (probability) is split
/// into. One if the op allows it (tf32), or if the stored results are no more
/// precise than 16 bits; else enough for an f32 mantissa.
static int64_t weightPieces(func::FuncOp kernel, MathType type) {
  if (type == MathType::TensorFloat32)
    return 1;
  bool isHalf = type == MathType::Float16;
  bool storesNarrow = llvm::all_of(kernel.getResultTypes(), [&](Type result) {
    auto stored = dyn_cast<FloatType>(getElementTypeOrSelf(result));
    return stored && stored.getFPMantissaWidth() <= (isHalf ? 11u : 8u);
  });
  return storesNarrow ? 1 : isHalf ? 2 : 3;
}

/// Returns the columns whose fragments are loaded at once, a register each.
static int64_t pieceColumns(int64_t columns, bool isTf32) {
  // The query in tf32 takes twice the registers.
  if (isTf32 && columns > 64)
    return 16;
  // Wide accumulators leave few registers.
  for (int64_t piece : {64, 48, 32})
    if (columns % piece == 0 && (columns <= 128 || piece <= 32))
      return piece;
  return columns <= 112 ? columns : 16;
}

/// Returns nullopt if tensor cores lack the type, or tiles do not fit.
static std::optional<Schedule> scheduleMma(func::FuncOp kernel, AttentionOp op,
                                           const AttentionSizes &sizes,
                                           const CudaTarget &target) {
  const MatrixUnit *unit =
      mmaUnit(getElementTypeOrSelf(op.getQuery()), op.getCompute(), target);
  if (!unit)
    return std::nullopt;
  if (sizes.depth < 1 || sizes.depth > 256 || sizes.width > 256 ||
      sizes.positions < 1)
    return std::nullopt;
  bool isTf32 = unit->type == MathType::TensorFloat32;
  int64_t bytes = isTf32 ? 4 : 2, skew = 16 / bytes;
  int64_t depth = llvm::alignTo(sizes.depth, isTf32 ? 8 : 16),
          columns = llvm::alignTo(sizes.width, 16);
  // The same number of tile bytes for each type.
  int64_t keys =
      std::min<int64_t>((std::max(depth, columns) > 128 ? 64 : 128) / bytes,
                        llvm::alignTo(sizes.positions, 16));
  bool copies = target.hasAsyncCopies() &&
                AttentionKernel::asyncBytes(op.getKey()) &&
                AttentionKernel::asyncBytes(op.getValue());
  int64_t stages = copies ? 2 : 1;
  // Wide values leave no registers for the query besides accumulators.
  bool keepsQuery = depth <= 128 && depth + columns <= (isTf32 ? 256 : 320);
  int64_t tileBytes = stages * keys * (depth + columns + 2 * skew) * bytes;
  int64_t warps = std::min<int64_t>(4, llvm::divideCeil(sizes.groupRows(), 16));
  auto sharedBytes = [&] {
    int64_t queryBytes = 16 * warps * (depth + skew) * bytes;
    int64_t resultBytes = 16 * warps * (columns + 8) * 4;
    return std::max(keepsQuery ? std::max(tileBytes, queryBytes)
                               : tileBytes + queryBytes,
                    resultBytes);
  };
  // For few heads use smaller blocks on more multiprocessors, unless grouped
  // heads would read their keys again.
  while (warps > 1 &&
         (sharedBytes() > target.sharedBytesPerBlock() ||
          (sizes.grouped == 1 && 2 * countBlocks(sizes, 16 * warps, columns) <=
                                     target.multiprocessors())))
    warps = llvm::divideCeil(warps, 2);
  if (sharedBytes() > target.sharedBytesPerBlock())
    return std::nullopt;
  Schedule schedule;
  schedule.threads = 32 * warps;
  schedule.blocks[0] = countBlocks(sizes, 16 * warps, columns);
  schedule.sharedBytes = sharedBytes();
  AttentionSchedule parameters;
  parameters.rows = 16 * warps;
  parameters.keys = keys;
  parameters.depth = depth;
  parameters.columns = columns;
  parameters.grouped = sizes.grouped;
  parameters.matrixUnits = true;
  parameters.pieceColumns = pieceColumns(columns, isTf32);
  parameters.stages = stages;
  parameters.asyncQuery =
      target.hasAsyncCopies() && AttentionKernel::asyncBytes(op.getQuery()) > 0;
  parameters.queryInRegisters = keepsQuery;
  parameters.weightPieces = weightPieces(kernel, unit->type);
  splitKv(schedule, parameters, sizes, attentionSumType(op.getQuery()), target);
  return schedule;
}

namespace {
class AttentionPlan : public KernelPlan {
public:
  AttentionPlan(func::FuncOp kernel, const CudaTarget &target, AttentionOp op)
      : KernelPlan(kernel, target), op(op) {}

  std::optional<Schedule> schedule() const override {
    AttentionSizes sizes{AttentionProblem(op)};
    // Grouped-query attention with few queries: load keys once for all heads.
    bool isDouble = attentionSumType(op.getQuery()).isF64();
    if (sizes.share() * sizes.length <=
        (isDouble ? kGroupRowsOfDouble : kGroupRows))
      sizes.grouped = sizes.share();
    std::optional<Schedule> schedule = scheduleMma(kernel, op, sizes, target);
    return schedule ? schedule : scheduleFma(op, sizes, target);
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    AttentionKernel attention(gpuKernel, op);
    return attention.parameters.matrixUnits ? emitAttentionByMma(attention)
                                            : emitAttentionByFma(attention);
  }

private:
  /// MLIR's accessors are not const.
  mutable AttentionOp op;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planAttention(func::FuncOp kernel,
                                                const CudaTarget &target) {
  AttentionOp op = attentionOf(kernel);
  return op && elementCount(op.getResult()) > 0
             ? std::make_unique<AttentionPlan>(kernel, target, op)
             : nullptr;
}
