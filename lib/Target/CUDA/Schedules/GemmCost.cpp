//===- GemmCost.cpp - what a product cut into tiles takes -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmCost.h"

#include "../CudaMachine.h"
#include "GemmSums.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// What a pipeline may take in any case, so that two blocks share a
/// multiprocessor where they can, and the most that it takes where registers
/// have room for one alone.
static constexpr int64_t kPipelineBytes = 80 * 1024,
                         kMostPipelineBytes = 200 * 1024;
/// Instructions of a thread that find and fetch one chunk of a tile, where its
/// address is a line and a position and where it is a place of an image, that
/// make one element of an image kept in shared memory, and that one element
/// takes between its sum and its store.
static constexpr double kPerChunk = 24, kPerGathered = 48, kPerKept = 10,
                        kPerResult = 16;
/// Cycles from a barrier until the units are busy again where they wait at it
/// and where a product goes on meanwhile, of a load from the
/// second-level cache or memory, that a block takes to begin and end, and that
/// blocks take to find out which of them is the last one of a tile.
static constexpr double kBarrierWait = 120, kBehindWait = 40, kLatency = 900,
                        kBlockWait = 1500, kMeet = 2500;
/// Where a block makes whole rows: instructions for an element, and cycles from
/// a row's first load to its last store.
static constexpr double kPerRowElement = 8, kRowWait = 1500;

GemmCost::GemmCost(const GemmProblem &problem, const CudaTarget &target)
    : problem(problem), target(target) {}

/// Registers for addresses: where each chunk has its own, and where a pointer
/// and constants do; and for what a thread adds of an operand.
static constexpr int64_t kAddresses = 60, kLineAddresses = 8, kOperandSums = 8;
/// Where two tiles in shared memory begin, as an instruction is told.
static constexpr int64_t kDescriptors = 8;
/// Both operands, the result and a bias: memories that ask for no more.
static constexpr int64_t kFewMemories = 4;

/// Sums and one step's fragments.
static int64_t registersOfSums(const GemmProblem &problem,
                               const GemmTiles &tiles) {
  int64_t sums = tiles.warpM() * tiles.warpN() / 32;
  if (tiles.warpgroups)
    return sums + kDescriptors;
  int64_t fragments = problem.unit == GemmUnitKind::Fma
                          ? tiles.warpM() + tiles.warpN() / 2
                          : tiles.warpM() / 4 + tiles.warpN() / 4;
  return sums + fragments;
}

int64_t GemmCost::registers(const GemmTiles &tiles) const {
  return std::min<int64_t>(registersOfSums(problem, tiles) + kAddresses,
                           CudaMachine::kThreadRegisters);
}

bool GemmCost::fitsRegisters(const GemmTiles &tiles) const {
  auto hasLines = [&](const GemmOperand &operand, int64_t rows) {
    return operand.lineStride() && operand.rows % rows == 0 &&
           operand.depth % tiles.k == 0;
  };
  bool byLines = target.hasAsyncCopies() && hasLines(*problem.lhs, tiles.m) &&
                 hasLines(*problem.rhs, tiles.n);
  // An epilogue's places in further arguments and results wait meanwhile.
  auto kernel = problem.anchor->getParentOfType<func::FuncOp>();
  int64_t memories = kernel.getNumArguments() + kernel.getNumResults();
  int64_t needed = registersOfSums(problem, tiles) +
                   (byLines ? kLineAddresses : kAddresses) +
                   (problem.sums.empty() ? 0 : kOperandSums) +
                   2 * std::max<int64_t>(memories - kFewMemories, 0);
  // A warp's registers are handed out eight to a lane.
  int64_t most = CudaMachine::kRegisters / tiles.threads() / 8 * 8;
  return needed <= std::min<int64_t>(most, CudaMachine::kThreadRegisters);
}

int64_t GemmCost::pipelineRoom(const GemmTiles &tiles) const {
  // Rows in shared memory leave room for few blocks anyway.
  if (problem.rows)
    return target.sharedBytesPerBlock();
  CudaMachine machine = CudaMachine::of(target.target());
  int64_t blocks =
      machine.residentBlocks(tiles.threads(), registers(tiles), /*shared=*/0);
  int64_t share = machine.sharedBytes / std::max<int64_t>(blocks, 1);
  return std::min(
      {std::max(share - CudaMachine::kReservedShared, kPipelineBytes),
       target.sharedBytesPerBlock(), kMostPipelineBytes});
}

/// Operations of a multiprocessor per cycle.
static double flopsPerCycle(const GemmProblem &problem, const GemmTiles &tiles,
                            const CudaMachine &machine) {
  switch (problem.unit) {
  case GemmUnitKind::Mma16: {
    auto type =
        problem.tileType.isF16() ? MathType::Float16 : MathType::BFloat16;
    return tiles.warpgroups ? machine.warpgroupFlops(type)
                            : machine.mmaFlops(type);
  }
  case GemmUnitKind::MmaTf32:
    return machine.mmaFlops(MathType::TensorFloat32);
  case GemmUnitKind::Fma:
    break;
  }
  return machine.floatFlops();
}

/// Instructions of threads that bring a tile of `rows` rows of an operand.
static double instructionsFor(const GemmProblem &problem,
                              const GemmTiles &tiles,
                              const GemmOperand &operand, int64_t rows) {
  double elements = double(rows) * double(tiles.k);
  if (tiles.haloElements(problem, operand) > 0)
    return elements * kPerKept;
  int64_t chunk = std::min(operand.chunk, operand.alongDepth ? tiles.k : rows);
  return elements / double(chunk) *
         (isa<MatmulOp>(problem.anchor) ? kPerChunk : kPerGathered);
}

double GemmCost::rowCycles(const GemmTiles &tiles, double fromL2,
                           double together) const {
  if (!problem.rows)
    return 0;
  double elements = double(tiles.m) * double(problem.k);
  return std::max({problem.rows->bytes(tiles) / fromL2,
                   elements * kPerRowElement / (32 * CudaMachine::kIssue),
                   double(problem.rows->rounds(tiles)) * kRowWait / together});
}

double GemmCost::cycles(const GemmTiles &tiles) const {
  CudaMachine machine = CudaMachine::of(target.target());
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
  double fromL2 =
      std::min(CudaMachine::kL2BytesAlone, CudaMachine::kL2Bytes / busy);

  // One step along k: copies go on while the units wait.
  double area = double(tiles.m) * double(tiles.n);
  double bytes = double(bytesPerElement(problem.tileType));
  double edges =
      double(tiles.k) * double((problem.rows ? 0 : tiles.m) + tiles.n) * bytes;
  // Four warps together read the right side once.
  int64_t readers = tiles.warpgroups ? tiles.warpsM / 4 : tiles.warpsM;
  double read = double(tiles.k) * bytes *
                double(tiles.m * tiles.warpsN + tiles.n * readers);
  double multiply =
      2 * double(tiles.k) * area / flopsPerCycle(problem, tiles, machine);
  double left =
      problem.rows ? 0 : instructionsFor(problem, tiles, *problem.lhs, tiles.m);
  double issue =
      (left + instructionsFor(problem, tiles, *problem.rhs, tiles.n)) /
      (32 * CudaMachine::kIssue);
  // Instructions that multiply take the place of others; matrix units do not.
  if (problem.unit == GemmUnitKind::Fma)
    issue += multiply;
  double units =
      std::max({multiply, issue, (read + edges) / CudaMachine::kSharedBytes});
  double ahead = std::max<double>(double(tiles.ahead()), 1);
  double wait = tiles.behind() ? kBehindWait : kBarrierWait;
  double step = std::max(
      {edges / fromL2, units + wait / together, kLatency / (ahead * together)});
  double steps =
      double(llvm::divideCeil(problem.k, tiles.k)) / double(tiles.splits);

  // Results pass through shared memory; of split products all blocks leave
  // their sums, and one per tile adds them up.
  double finish = std::max(area * 4 / fromL2,
                           area * kPerResult / (32 * CudaMachine::kIssue));
  double block = steps * step + (kBlockWait + kLatency) / together + finish +
                 rowCycles(tiles, fromL2, together);
  double cycles = rounds * block;
  if (tiles.splits > 1) {
    double adding = std::min(tileCount, processors);
    double rate = std::min(CudaMachine::kL2BytesAlone,
                           CudaMachine::kL2Bytes * processors / adding);
    cycles += kMeet + std::ceil(tileCount / processors) * double(tiles.splits) *
                          area * 4 / rate;
  }
  return cycles;
}
