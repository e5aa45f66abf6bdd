//===- GemmCost.cpp - cost model of tiled GEMM ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmCost.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"

#include "../MultiprocessorModel.h"
#include "GemmOperandSums.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Shared memory always granted to a pipeline, so that two blocks fit on a
/// multiprocessor, and its maximum where registers limit occupancy to one, in
/// bytes.
static constexpr int64_t kPipelineBytes = 80 * 1024,
                         kMostPipelineBytes = 200 * 1024;
static constexpr double
    /// Instructions per chunk of a linearly addressed tile.
    kPerChunk = 24,
    /// Instructions per chunk of a tile gathered from an image.
    kPerGathered = 48,
    /// Instructions per result element, from accumulator to store.
    kPerResult = 16;
static constexpr double
    /// Stall at a barrier, in cycles.
    kBarrierWait = 120,
    /// Stall at a barrier with a wgmma in flight, in cycles.
    kBehindWait = 40,
    /// Load latency of L2 or memory, in cycles.
    kLatency = 900,
    /// Block start-up and tail, in cycles.
    kBlockWait = 1500,
    /// Split-K semaphore, in cycles.
    kSplitKSemaphore = 2500;
static constexpr double
    /// Instructions per element of the row prologue.
    kPerRowElement = 8,
    /// Latency of one row, from first load to last store, in cycles.
    kRowWait = 1500;

GemmCost::GemmCost(const FusedGemm &problem, const CudaTarget &target)
    : problem(problem), target(target) {}

/// Address registers with separate and with shared (constant-offset) chunk
/// addresses; accumulators of operand sums.
static constexpr int64_t kAddresses = 60, kLineAddresses = 8, kOperandSums = 8;
/// Registers for the matrix descriptors of two tiles.
static constexpr int64_t kDescriptors = 8;
/// Buffers included above: both operands, result, bias.
static constexpr int64_t kFewMemories = 4;

/// Returns the registers for accumulators and one step's fragments.
static int64_t registersOfSums(const FusedGemm &problem,
                               const GemmTiles &tiles) {
  const MatrixUnit &unit = tiles.unitOf(problem);
  return tiles.warpM() * tiles.warpN() / 32 * (tiles.promotes ? 2 : 1) +
         tiles.warpM() / unit.m * unit.leftWords +
         tiles.warpN() / unit.n * unit.rightWords +
         (unit.isWgmma() ? kDescriptors : 0);
}

int64_t GemmCost::registers(const GemmTiles &tiles) const {
  return std::min<int64_t>(registersOfSums(problem, tiles) + kAddresses,
                           MultiprocessorModel::kThreadRegisters);
}

bool GemmCost::fitsRegisters(const GemmTiles &tiles) const {
  auto hasLines = [&](const GemmOperand &operand, int64_t rows) {
    return operand.lineStride() && operand.rows % rows == 0 &&
           operand.depth % tiles.k == 0;
  };
  bool byLines = target.hasAsyncCopies() && hasLines(*problem.lhs, tiles.m) &&
                 hasLines(*problem.rhs, tiles.n);
  // Further arguments and results need address registers in the epilogue.
  auto kernel = problem.anchor->getParentOfType<func::FuncOp>();
  int64_t memories = kernel.getNumArguments() + kernel.getNumResults();
  int64_t needed = registersOfSums(problem, tiles) +
                   (byLines ? kLineAddresses : kAddresses) +
                   (problem.sums.empty() ? 0 : kOperandSums) +
                   2 * std::max<int64_t>(memories - kFewMemories, 0);
  // Registers are allocated in units of eight per lane.
  int64_t most = MultiprocessorModel::kRegisters / tiles.threads() / 8 * 8;
  return needed <=
         std::min<int64_t>(most, MultiprocessorModel::kThreadRegisters);
}

int64_t GemmCost::pipelineRoom(const GemmTiles &tiles) const {
  // The row prologue limits occupancy anyway.
  if (problem.rows)
    return target.sharedBytesPerBlock();
  MultiprocessorModel machine = MultiprocessorModel::of(target.target());
  int64_t blocks =
      machine.residentBlocks(tiles.threads(), registers(tiles), /*shared=*/0);
  int64_t share = machine.sharedBytes / std::max<int64_t>(blocks, 1);
  return std::min(
      {std::max(share - MultiprocessorModel::kReservedShared, kPipelineBytes),
       target.sharedBytesPerBlock(), kMostPipelineBytes});
}

/// Returns the thread instructions to load a tile of `rows` rows of an operand.
static double instructionsFor(const FusedGemm &problem, const GemmTiles &tiles,
                              const GemmOperand &operand, int64_t rows) {
  double elements = double(rows) * double(tiles.k);
  int64_t chunk = std::min(operand.chunk, operand.alongDepth ? tiles.k : rows);
  return elements / double(chunk) *
         (isa<MatmulOp>(problem.anchor) ? kPerChunk : kPerGathered);
}

double GemmCost::rowCycles(const GemmTiles &tiles, double fromL2,
                           double together) const {
  if (!problem.rows)
    return 0;
  double elements = double(tiles.m) * double(problem.k);
  return std::max(
      {problem.rows->bytes(tiles) / fromL2,
       elements * kPerRowElement / (32 * MultiprocessorModel::kIssue),
       double(problem.rows->rounds(tiles)) * kRowWait / together});
}

double GemmCost::cycles(const GemmTiles &tiles) const {
  MultiprocessorModel machine = MultiprocessorModel::of(target.target());
  double processors = double(machine.multiprocessors);
  double tileCount = double(tiles.tileCount(problem));
  double blocks = tileCount * double(tiles.splits);
  double rounds = std::ceil(blocks / processors);
  double together = std::clamp<double>(
      rounds, 1,
      double(std::max<int64_t>(
          machine.residentBlocks(tiles.threads(), registers(tiles),
                                 tiles.sharedBytes(problem)),
          1)));
  double busy = blocks / (rounds * processors);
  double fromL2 = std::min(MultiprocessorModel::kL2BytesAlone,
                           MultiprocessorModel::kL2Bytes / busy);

  // One step along k: copies overlap stalls.
  double area = double(tiles.m) * double(tiles.n);
  double bytes = double(bytesPerElement(problem.tileType));
  double edges =
      double(tiles.k) * double((problem.rows ? 0 : tiles.m) + tiles.n) * bytes;
  const MatrixUnit &unit = tiles.unitOf(problem);
  // The warps of an instruction read the right-hand side once.
  int64_t readers = tiles.warpsM / unit.warps();
  double read = double(tiles.k) * bytes *
                double(tiles.m * tiles.warpsN + tiles.n * readers);
  double multiply =
      2 * double(tiles.k) * area / (machine.*unit.flops)(unit.type);
  double left =
      problem.rows ? 0 : instructionsFor(problem, tiles, *problem.lhs, tiles.m);
  double issue =
      (left + instructionsFor(problem, tiles, *problem.rhs, tiles.n)) /
      (32 * MultiprocessorModel::kIssue);
  if (tiles.promotes)
    issue += area / (32 * MultiprocessorModel::kIssue);
  // Fused multiply-adds compete for issue slots; tensor cores do not.
  if (unit.isFma())
    issue += multiply;
  double units = std::max(
      {multiply, issue, (read + edges) / MultiprocessorModel::kSharedBytes});
  double ahead = std::max<double>(double(tiles.ahead()), 1);
  double wait = tiles.behind() ? kBehindWait : kBarrierWait;
  double step = std::max(
      {edges / fromL2, units + wait / together, kLatency / (ahead * together)});
  double steps =
      double(llvm::divideCeil(problem.k, tiles.k)) / double(tiles.splits);

  // Results pass through shared memory. With split-K all blocks store partial
  // tiles, and one per tile reduces them.
  double finish =
      std::max(area * 4 / fromL2,
               area * kPerResult / (32 * MultiprocessorModel::kIssue));
  double block = steps * step + (kBlockWait + kLatency) / together + finish +
                 rowCycles(tiles, fromL2, together);
  double cycles = rounds * block;
  if (tiles.splits > 1) {
    double adding = std::min(tileCount, processors);
    double rate = std::min(MultiprocessorModel::kL2BytesAlone,
                           MultiprocessorModel::kL2Bytes * processors / adding);
    cycles += kSplitKSemaphore + std::ceil(tileCount / processors) *
                                     double(tiles.splits) * area * 4 / rate;
  }
  return cycles;
}
