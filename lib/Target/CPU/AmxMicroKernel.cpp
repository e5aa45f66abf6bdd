//===- AmxMicroKernel.cpp - GEMM micro-kernel on AMX tiles ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two by two accumulator tiles stay in registers for all of K; a step of K
// loads two tiles of rows and two of the panel for four tile products. Reads
// the same rows and panels as the vector kernels.
//
//===----------------------------------------------------------------------===//

#include "MicroKernel.h"

#include "AmxTiles.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
/// Rows of one tile: `count` rows from row `first` of the block on.
struct RowRun {
  int64_t first, count;
  /// Distance of rows in memory, in elements.
  int64_t distance;
};

/// A run of positions as `count` equal steps of tiles, and a remainder for
/// vectors.
struct StepSplit {
  StepSplit(int64_t positions, const RegisterBlock &block);
  int64_t positions, count, rest;
};
} // namespace

/// Returns the vector unit for the remainder of `block`.
static ArithmeticUnit restUnitOf(const RegisterBlock &block) {
  if (block.unit == ArithmeticUnit::TileBf16 ||
      block.unit == ArithmeticUnit::TileTerms)
    return ArithmeticUnit::DotBf16;
  if (block.unit == ArithmeticUnit::TileF16)
    return ArithmeticUnit::PairsF16;
  bool isMixed = !block.signs.rows && block.signs.columns;
  return isMixed ? ArithmeticUnit::DotInt8 : ArithmeticUnit::PairsInt8;
}

/// Returns the operand types of the tiles.
static AmxOperandTypes factorsOf(const RegisterBlock &block) {
  if (block.unit == ArithmeticUnit::TileBf16 ||
      block.unit == ArithmeticUnit::TileTerms)
    return AmxOperandTypes::Bf16;
  if (block.unit == ArithmeticUnit::TileF16)
    return AmxOperandTypes::F16;
  if (block.signs.rows)
    return block.signs.columns ? AmxOperandTypes::SignedSigned
                               : AmxOperandTypes::SignedUnsigned;
  return block.signs.columns ? AmxOperandTypes::UnsignedSigned
                             : AmxOperandTypes::UnsignedUnsigned;
}

StepSplit::StepSplit(int64_t all, const RegisterBlock &block) {
  int64_t word = stepDepth(block.unit);
  positions = word;
  count = 0;
  rest = all;
  // Costs for a full block, in half tile steps of any depth: for bf16, a word
  // of positions by vdpbf16ps takes 1.5 times a tile step (measured), by two
  // f32 multiply-adds two thirds of that. For bytes half: vpdpbusd has the rate
  // of f32 multiply-adds, vpmaddwd twice that cost.
  int64_t byVectors = 2;
  if (restUnitOf(block) == ArithmeticUnit::DotBf16)
    byVectors = 3;
  else if (restUnitOf(block) == ArithmeticUnit::DotInt8)
    byVectors = 1;
  auto cost = [&](int64_t count, int64_t rest) {
    return 2 * count + byVectors * int64_t(llvm::divideCeil(rest, word));
  };
  int64_t most = AmxTiles::kRowBytes / 4 * word;
  for (int64_t depth = most; depth >= word; depth -= word)
    if (cost(all / depth, all % depth) < cost(count, rest)) {
      positions = depth;
      count = all / depth;
      rest = all % depth;
    }
}

/// Groups rows at `offsets` into tiles: rows of a tile are equidistant.
static SmallVector<RowRun> cutRows(ArrayRef<int64_t> offsets) {
  SmallVector<RowRun> runs;
  int64_t all = offsets.size();
  for (int64_t first = 0; first < all;) {
    int64_t distance =
        first + 1 < all ? offsets[first + 1] - offsets[first] : 0;
    int64_t end = first + 1;
    while (end < all && offsets[end] - offsets[end - 1] == distance)
      ++end;
    RowSplit split(end - first, AmxTiles::kRows);
    for (int64_t part = 0; part < split.blocks; ++part) {
      int64_t count = split.rows + (part < split.larger ? 1 : 0);
      runs.push_back({first, count, distance});
      first += count;
    }
  }
  return runs;
}

namespace {
/// bf16 terms of rows and columns whose products are summed together, ordered
/// so that consecutive pairs share an operand.
using TermPairs = SmallVector<std::pair<int64_t, int64_t>>;

/// Register indices: accumulators of row tile i and column tile j in 2 * i + j.
enum : int64_t { kSums = 0, kRows = 4, kColumns = 6 };

class AmxKernelEmission {
public:
  AmxKernelEmission(OpBuilder &b, Location loc, AmxTiles &unit,
                    const RegisterBlock &block, Value rows, Value base,
                    const Panel &panel, ArrayRef<KLoop> loops)
      : b(b), loc(loc), math{b, loc}, unit(unit), block(block), rows(rows),
        base(base), panel(panel), loops(loops), word(stepDepth(block.unit)),
        split(loops.back().extent * word - loops.back().missing, block),
        factors(factorsOf(block)),
        pitch(panel.pitch ? panel.pitch : panel.columns) {
    assert(loops.back().rowStride == word &&
           "positions of a run are neighbours");
  }

  /// Computes the sum of the products of `pairs` of terms, or adds it to the
  /// stored values.
  void addProducts(const TermPairs &pairs, const TileMemory &to, bool add);
  /// Adds the accumulators of first terms and, if those are finite, of the
  /// others.
  void joinSums(const TileMemory &firstTerms, const TileMemory &others,
                const TileMemory &to, bool add);

private:
  /// Emits the accumulators of the term products for the rows of `runs` and up
  /// to two vectors of columns from `first` on.
  void run(ArrayRef<RowRun> runs, int64_t first, int64_t vectors,
           const TileMemory &to, bool add) {
    rowRuns = runs;
    firstVector = first;
    vectorCount = vectors;
    configure();
    auto forSums =
        [&](llvm::function_ref<void(int64_t, const TileMemory &)> body) {
          for (auto [i, run] : llvm::enumerate(runs))
            for (int64_t j = 0; j < vectors; ++j)
              body(kSums + 2 * i + j,
                   {to.memory,
                    math.add(to.offset,
                             run.first * to.pitch + (first + j) * block.lanes),
                    to.pitch});
        };
    forSums([&](int64_t tile, const TileMemory &memory) {
      add ? unit.load(tile, memory) : unit.zero(tile);
    });
    walk(0, base, panel.offset);
    forSums([&](int64_t tile, const TileMemory &memory) {
      unit.store(tile, memory);
    });
  }

  /// Adds the positions after the last tile step by vectors, for a pair of
  /// terms.
  void addRest(std::pair<int64_t, int64_t> terms, const TileMemory &to,
               bool add);
  void configure() {
    // An unused tile is shaped like its neighbor, so that blocks of fewer tiles
    // share a configuration.
    int64_t rowCount[] = {rowRuns.front().count, rowRuns.back().count};
    TileShapes shapes(AmxTiles::kRegisters);
    for (int64_t i : {0, 1}) {
      for (int64_t j : {0, 1})
        shapes[kSums + 2 * i + j] = {rowCount[i], AmxTiles::kRowBytes};
      shapes[kRows + i] = {rowCount[i], 4 * split.positions / word};
      shapes[kColumns + i] = {split.positions / word, AmxTiles::kRowBytes};
    }
    unit.configure(shapes);
  }

  void walk(size_t depth, Value row, Value column) {
    if (depth + 1 == loops.size()) {
      math.loop(split.count, [&](Value k) {
        step(math.add(row, math.mul(k, split.positions)),
             math.add(column, math.mul(k, split.positions / word * pitch)));
      });
      return;
    }
    int64_t panelStride = pitch * panelSteps(loops.drop_front(depth));
    forEachStep(math, loops[depth], [&](Value k) {
      walk(depth + 1, math.add(row, math.mul(k, loops[depth].rowStride)),
           math.add(column, math.mul(k, panelStride)));
    });
  }

  void step(Value row, Value column) {
    int64_t loadedRow = -1, loadedColumn = -1;
    for (auto [rowTerm, columnTerm] : termPairs) {
      for (auto [i, run] : llvm::enumerate(rowRuns)) {
        if (rowTerm != loadedRow)
          unit.load(kRows + i,
                    {rows,
                     math.add(row, block.rowOffsets[run.first] +
                                       rowTerm * block.terms.rowPlane),
                     run.distance},
                    /*isStreamed=*/!panel.isStreamed);
        for (int64_t j = 0; j < vectorCount; ++j) {
          if (i == 0 && columnTerm != loadedColumn)
            unit.load(
                kColumns + j,
                {panel.memory,
                 math.add(column, (firstVector + j) * block.lanes +
                                      columnTerm * block.terms.panelPlane),
                 pitch},
                panel.isStreamed);
          unit.multiply(factors, kSums + 2 * i + j, kRows + i, kColumns + j);
        }
      }
      loadedRow = rowTerm;
      loadedColumn = columnTerm;
    }
  }

  OpBuilder &b;
  Location loc;
  IndexMath math;
  AmxTiles &unit;
  const RegisterBlock &block;
  Value rows, base;
  const Panel &panel;
  ArrayRef<KLoop> loops;
  /// Positions per word.
  int64_t word;
  StepSplit split;
  AmxOperandTypes factors;
  int64_t pitch;
  TermPairs termPairs;
  ArrayRef<RowRun> rowRuns;
  int64_t firstVector = 0, vectorCount = 0;
};
} // namespace

void AmxKernelEmission::addRest(std::pair<int64_t, int64_t> terms,
                                const TileMemory &to, bool add) {
  // Maximum rows whose accumulators fit in registers with the operands.
  constexpr int64_t kMostRows = 12;
  int64_t done = split.count * split.positions;
  SmallVector<KLoop> inner(loops);
  for (auto [depth, loop] : llvm::enumerate(inner))
    loop.panelSteps = panelSteps(loops.drop_front(depth));
  inner.back().extent = llvm::divideCeil(split.rest, word);
  Panel behind = panel;
  behind.offset =
      math.add(panel.offset,
               done / word * pitch + terms.second * block.terms.panelPlane);
  Value from = math.add(base, done + terms.first * block.terms.rowPlane);
  for (int64_t first = 0; first < block.rows(); first += kMostRows) {
    RegisterBlock part = block;
    part.unit = restUnitOf(block);
    part.rowOffsets.assign(
        ArrayRef(block.rowOffsets)
            .slice(first, std::min(kMostRows, block.rows() - first)));
    storeSums(b, loc, part,
              emitMicroKernel(b, loc, part, rows, from, behind, inner),
              to.memory, to.pitch, math.add(to.offset, first * to.pitch), add);
  }
}

void AmxKernelEmission::addProducts(const TermPairs &pairs,
                                    const TileMemory &to, bool add) {
  termPairs = pairs;
  SmallVector<RowRun> runs = cutRows(block.rowOffsets);
  if (split.count)
    for (ArrayRef<RowRun> left = runs; !left.empty();
         left = left.drop_front(std::min<size_t>(2, left.size())))
      for (int64_t first = 0; first < block.vectors; first += 2)
        run(left.take_front(2), first,
            std::min<int64_t>(2, block.vectors - first), to, add);
  if (!split.rest)
    return;
  add |= split.count > 0;
  for (auto pair : pairs) {
    addRest(pair, to, add);
    add = true;
  }
}

void AmxKernelEmission::joinSums(const TileMemory &firstTerms,
                                 const TileMemory &others, const TileMemory &to,
                                 bool add) {
  constexpr int64_t kExponent = 0x7f800000;
  ValueMath values(b, loc);
  math.loop(block.rows(), [&](Value row) {
    for (int64_t v = 0; v < block.vectors; ++v) {
      auto placeIn = [&](const TileMemory &from) {
        return math.add(math.add(from.offset, math.mul(row, from.pitch)),
                        v * block.lanes);
      };
      auto load = [&](const TileMemory &from) {
        return math.load(from.memory, placeIn(from), block.lanes);
      };
      Value sum = load(firstTerms);
      Value exponent = values.bitAnd(values.bits(sum), kExponent);
      Value isNumber =
          values.compare(arith::CmpIPredicate::ne, exponent, kExponent);
      sum = values.select(isNumber, values.add(sum, load(others)), sum);
      if (add)
        sum = values.add(load(to), sum);
      math.store(sum, to.memory, placeIn(to));
    }
  });
}

void cpu::emitTileKernel(OpBuilder &b, Location loc, AmxTiles &unit,
                         const RegisterBlock &block, Value rows, Value base,
                         const Panel &panel, ArrayRef<KLoop> loops,
                         const TileMemory &to, bool add, Value spare) {
  AmxKernelEmission emission(b, loc, unit, block, rows, base, panel, loops);
  const TermPairs firstTerms = {{0, 0}};
  if (block.terms.count == 1)
    return emission.addProducts(firstTerms, to, add);
  TermPairs others;
  for (std::pair<int64_t, int64_t> pair :
       {std::pair(0, 2), std::pair(0, 1), std::pair(1, 1), std::pair(1, 0),
        std::pair(2, 0)})
    if (block.terms.hasProduct(pair.first, pair.second))
      others.push_back(pair);
  IndexMath math{b, loc};
  TileMemory first{spare, math.constant(0), to.pitch},
      second{spare, math.constant(block.rows() * to.pitch), to.pitch};
  emission.addProducts(firstTerms, first, /*add=*/false);
  emission.addProducts(others, second, /*add=*/false);
  emission.joinSums(first, second, to, add);
}
