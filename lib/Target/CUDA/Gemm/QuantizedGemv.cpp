//===- QuantizedGemv.cpp - GEMV with quantized weights --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matching and tiling of skinny GEMMs with quantized weights.
//
//===----------------------------------------------------------------------===//

#include "QuantizedGemv.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include "../MultiprocessorModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum rows; tensor-core tiles are faster beyond.
static constexpr int64_t kMostRows = 8;
/// Maximum accumulators per thread.
static constexpr int64_t kMostSums = 32;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

std::optional<QuantizedWeightRows> QuantizedWeightRows::of(Value matrix) {
  auto narrow = matrix.getDefiningOp<DequantizeOp>();
  if (!narrow || !narrow.isMatrix() || !isa<BlockArgument>(narrow.getValues()))
    return std::nullopt;
  auto type = cast<RankedTensorType>(matrix.getType());
  QuantizedWeightRows lines;
  lines.narrow = narrow;
  lines.count = type.getDimSize(0);
  lines.depth = type.getDimSize(1);
  lines.group = narrow.getGroup();
  lines.bits = narrow.getNibbles()
                   ? 4
                   : getElementTypeOrSelf(narrow.getValues().getType())
                         .getIntOrFloatBitWidth();
  for (int64_t bytes : {int64_t(16), int64_t(8), int64_t(4)}) {
    lines.pieceBytes = bytes;
    if (lines.depth % lines.piece() == 0 && lines.group % lines.piece() == 0)
      return lines;
  }
  return std::nullopt;
}

std::optional<QuantizedGemv> QuantizedGemv::of(func::FuncOp kernel,
                                               const CudaTarget &target) {
  // Check the cheap conditions first.
  auto op = dyn_cast_if_present<MatmulOp>(soleContraction(kernel));
  std::optional<QuantizedWeightRows> lines =
      op && op.getTransposeRhs() ? QuantizedWeightRows::of(op.getRhs())
                                 : std::nullopt;
  if (!lines)
    return std::nullopt;
  std::optional<FusedGemm> problem = FusedGemm::matmul(kernel, target);
  if (!problem || problem->batches != 1 || problem->m > kMostRows ||
      !problem->sums.empty())
    return std::nullopt;
  return QuantizedGemv{std::move(*problem), *lines};
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

SmallVector<int64_t, 3> QuantizedGemv::rowsShape() const {
  // Lanes read adjacent chunks, at an odd number of vectors from each other.
  int64_t pad = kVectorBytes / bytesPerElement(problem.tileType);
  return {lines.pieces(), problem.m | 1, lines.piece() + pad};
}

int64_t QuantizedGemv::rowsBytes() const {
  int64_t elements = 1;
  for (int64_t extent : rowsShape())
    elements *= extent;
  return int64_t(llvm::alignTo(elements * bytesPerElement(problem.tileType),
                               kVectorBytes));
}

int64_t QuantizedGemv::sharedBytes(const QuantizedGemvTiles &tiles) const {
  return rowsBytes() + 4 * problem.m * tiles.blockColumns();
}

GemmTiles QuantizedGemv::rowTiles(const QuantizedGemvTiles &tiles) const {
  GemmTiles rows;
  rows.m = problem.m;
  rows.n = tiles.blockColumns();
  rows.k = lines.piece();
  rows.warpsM = tiles.warps;
  return rows;
}

//===----------------------------------------------------------------------===//
// Tile selection
//===----------------------------------------------------------------------===//

std::vector<QuantizedGemvTiles>
QuantizedGemv::candidates(const CudaTarget &target) const {
  constexpr int64_t kFewestLanes = 8;
  std::vector<QuantizedGemvTiles> all;
  for (int64_t columns : {4, 2, 1})
    for (int64_t lanes : {32, 16, 8})
      for (int64_t warps : {8, 4}) {
        QuantizedGemvTiles tiles{columns, lanes, warps};
        bool isIdle = lanes > kFewestLanes && lanes > lines.pieces();
        // A block needs both halves of its pairs.
        bool cutsPairs =
            problem.pair && tiles.blockColumns() % (2 * problem.pair->block);
        if (columns * problem.m <= kMostSums && !isIdle && !cutsPairs &&
            sharedBytes(tiles) <= target.sharedBytesPerBlock())
          all.push_back(tiles);
      }
  return all;
}

double QuantizedGemv::cycles(const QuantizedGemvTiles &tiles,
                             const CudaTarget &target) const {
  constexpr double
      /// Instructions per weight, besides one per row.
      kUnpack = 2.5,
      /// Memory latency, in cycles.
      kLatency = 900,
      /// Block start-up and tail, in cycles.
      kBlockWait = 1500,
      /// Share of the other resources' time that the bottleneck hides.
      kHidden = 0.95;
  /// Registers besides accumulators.
  constexpr int64_t kOthers = 48;
  MultiprocessorModel machine = MultiprocessorModel::of(target.target());
  auto processors = double(machine.multiprocessors);
  int64_t rows = problem.m,
          blocks = llvm::divideCeil(lines.count, tiles.blockColumns());
  int64_t registers = kOthers +
                      (lines.isGrouped() ? 2 : 1) * tiles.columns * rows +
                      tiles.columns * lines.words() + rows * lines.perWord();
  int64_t resident = std::max<int64_t>(
      machine.residentBlocks(tiles.threads(), registers, sharedBytes(tiles)),
      1);
  double used = std::min(double(blocks), processors),
         waves = std::ceil(double(blocks) / (processors * double(resident)));
  double steps = double(llvm::divideCeil(lines.pieces(), tiles.lanes));
  double wait = waves * (kBlockWait + (1 + steps) * kLatency);
  // Of one multiprocessor, with evenly distributed blocks.
  double share = double(blocks) / used;
  auto columns = double(tiles.blockColumns());
  double weights = columns * double(lines.depth),
         bytes = share * weights * double(lines.bits) / 8,
         ofRows = share * double(rows * lines.depth) *
                  double(bytesPerElement(problem.tileType));
  double memory = std::min(MultiprocessorModel::kL2BytesAlone,
                           machine.memoryBytes() * processors / used),
         cache = std::min(MultiprocessorModel::kL2BytesAlone,
                          MultiprocessorModel::kL2Bytes * processors / used);
  double moved = std::max(bytes / memory, (bytes + ofRows) / cache);
  double perWeight = kUnpack + double(rows) * (1 + 1 / double(tiles.columns)),
         joins = columns * double(rows * tiles.lanes) * 2 *
                 std::log2(double(tiles.lanes));
  double issue = share * (weights * perWeight + joins) /
                 (32 * MultiprocessorModel::kIssue);
  double longest = std::max({wait, moved, issue});
  return longest + (1 - kHidden) * (wait + moved + issue - longest) +
         kBlockWait;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

Schedule QuantizedGemv::scheduleWith(const QuantizedGemvTiles &tiles) const {
  Schedule schedule;
  schedule.blocks[0] = llvm::divideCeil(lines.count, tiles.blockColumns());
  schedule.threads = tiles.threads();
  schedule.sharedBytes = sharedBytes(tiles);
  if (problem.rows)
    schedule.team = problem.rows->team(rowTiles(tiles));
  schedule.set(tiles);
  return schedule;
}

namespace {
class QuantizedGemvPlan : public KernelPlan {
public:
  QuantizedGemvPlan(func::FuncOp kernel, const CudaTarget &target,
                    QuantizedGemv product, GemmEpilogue epilogue)
      : KernelPlan(kernel, target), product(std::move(product)),
        epilogue(std::move(epilogue)) {}

  std::optional<Schedule> schedule() const override {
    return best([](const QuantizedGemvTiles &) { return 0; });
  }

  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    auto wanted = given.get<QuantizedGemvTiles>();
    return best([&](const QuantizedGemvTiles &tiles) {
      return (tiles.columns != wanted.columns) + (tiles.lanes != wanted.lanes) +
             (tiles.warps != wanted.warps);
    });
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return emitQuantizedGemv(gpuKernel, product, epilogue);
  }

private:
  /// Returns the fastest schedule among those with the lowest `distance`, or
  /// nullopt.
  std::optional<Schedule>
  best(llvm::function_ref<int64_t(const QuantizedGemvTiles &)> distance) const {
    std::optional<QuantizedGemvTiles> chosen;
    std::pair<int64_t, double> least = {0, HUGE_VAL};
    for (const QuantizedGemvTiles &tiles : product.candidates(target))
      if (std::pair cost(distance(tiles), product.cycles(tiles, target));
          !chosen || cost < least) {
        least = cost;
        chosen = tiles;
      }
    return chosen ? std::optional(product.scheduleWith(*chosen)) : std::nullopt;
  }

  QuantizedGemv product;
  GemmEpilogue epilogue;
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planQuantizedGemv(func::FuncOp kernel,
                                                    const CudaTarget &target) {
  std::optional<QuantizedGemv> product = QuantizedGemv::of(kernel, target);
  if (!product)
    return nullptr;
  std::optional<GemmEpilogue> epilogue =
      GemmEpilogue::of(kernel, product->problem);
  if (!epilogue)
    return nullptr;
  return std::make_unique<QuantizedGemvPlan>(
      kernel, target, std::move(*product), std::move(*epilogue));
}
