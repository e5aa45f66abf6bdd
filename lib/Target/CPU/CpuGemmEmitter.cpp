//===- CpuGemmEmitter.cpp - GEMM kernels ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a group of row blocks times a group of panels of one batch.
// Deep GEMMs without constant operands, as in training, are blocked along K
// (GotoBLAS), so that the panels of a chunk stay in L2 and a block of rows in
// L1. Operands are packed in memory order: rows of a transposed left side for
// all of an item's blocks at once.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class CpuGemmEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  void addChunk(Value first, int64_t count);
  void packLines(Value first, int64_t count);
  void packRowColumn(const BlockRows &rows, int64_t size, Value k,
                     int64_t count, Value to);
  void addBlock(Value block, Value first, int64_t count);
  RowPrefetch rowsAhead(Value base, Value number, int64_t rows);
  void storePanel(Value block, Value number, int64_t used);

  SmallVector<Value> indicesOf(ArrayRef<int64_t> operandBatch) {
    return shape.batchIndices(math, operandBatch, batchPosition);
  }
  BlockRows rowsOf(Value block) { return {math, split, block}; }
  /// Indices of row `number` of the left side or of the result.
  SmallVector<Value> rowIndices(Value number, bool ofResult) {
    if (shape.flattened)
      return math.delinearize(number, shape.rowShape);
    SmallVector<Value> at =
        ofResult ? batchPosition : indicesOf(shape.lhsBatch);
    at.push_back(number);
    return at;
  }
  /// Index of the accumulators of a block and panel.
  Value tileOf(Value block, Value number) {
    if (!storesAccumulators())
      return math.constant(0);
    Value place =
        math.add(math.mul(math.sub(block, itemBlocks.begin), panelsPerItem),
                 math.sub(number, itemPanels.begin));
    return math.mul(place, split.largest() * columns);
  }

  const GemmExtents &shape = contraction.product;
  Value lhs = contraction.lhs(), rhs = contraction.rhs();
  bool transposed = contraction.transposeLhs;
  /// Whether the left side is packed step by step; tiles need rows.
  bool inSteps = transposed && !isTiled(contraction.unit);
  RowSplit split{shape.m, blocks.getRows()};
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), split.blocks);
  int64_t rowGroups = llvm::divideCeil(split.blocks, blocksPerItem);
  int64_t chunk = storesAccumulators() ? blocks.getChunk() : shape.depth;
  /// Elements between rows, or between steps if `transposed`; between blocks in
  /// the latter case, in which an item packs all of them together.
  int64_t rowPitch = 0, blockPitch = 0;
  /// Rows packed at once, if available: lanes after those of a block are
  /// overwritten by its next step.
  int64_t runRows = llvm::PowerOf2Ceil(split.largest());
  Value rowMemory;

  // State of the item being emitted.
  SmallVector<Value> batchPosition;
  Range itemPanels, itemBlocks;
  Value rowBase;
};
} // namespace

void CpuGemmEmitter::prepare() {
  items = shape.batch * rowGroups * panelGroups;
  cyclesPerItem =
      cyclesOf(2.0 * shape.m * panels * columns * shape.depth * shape.batch);
  int64_t rowElements = 0, rowBytes = bytesPerElement(contraction.rowType());
  if (!blocks.packsLeft()) {
    rowPitch = transposed ? shape.m : shape.depth;
  } else if (inSteps) {
    rowPitch = split.largest();
    // One additional cache line avoids conflicts between blocks.
    int64_t line = 64 / bytesPerElement(contraction.wordType());
    int64_t size = contraction.steps(chunk) * rowPitch;
    blockPitch = llvm::alignTo(size, 1024) + std::max(line, runRows - rowPitch);
    rowElements = blocksPerItem * blockPitch;
  } else {
    // Rows at a distance of 4 KB would share one cache set.
    rowPitch = chunk;
    if (storesAccumulators() || rowPitch * rowBytes % 4096 == 0)
      rowPitch += 64 / rowBytes;
    rowElements = split.largest() * rowPitch;
  }
  Type rowType = inSteps ? contraction.wordType() : contraction.rowType();
  terms.rowPlane = rowElements;
  rowMemory = blocks.packsLeft() ? area(terms.count * rowElements, rowType)
                                 : inPlace(lhs, contraction.rowType());
  panel.isStreamed = true;
  terms.panelPlane = panelsPerItem * contraction.steps(chunk) * columns;
  preparePanels();
  prepareSums(split.largest() * columns, blocksPerItem * panelsPerItem);
}

void CpuGemmEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {shape.batch, panelGroups, rowGroups});
  batchPosition.clear();
  if (!shape.flattened)
    batchPosition = math.delinearize(position[0], shape.batchShape);
  itemPanels = groupOf(position[1], panelsPerItem, panels);
  itemBlocks = groupOf(position[2], blocksPerItem, split.blocks);
  rowBase = math.constant(0);
  if (!blocks.packsLeft() && !shape.flattened) {
    for (auto [index, extent] :
         llvm::zip_equal(indicesOf(shape.lhsBatch), shape.lhsBatch))
      rowBase = math.add(math.mul(rowBase, extent), index);
    rowBase = math.mul(rowBase, shape.m * shape.depth);
  }
  if (!storesAccumulators())
    return addChunk(math.constant(0), shape.depth);

  clearSums();
  int64_t whole = shape.depth / chunk * chunk;
  math.loop(math.constant(0), math.constant(whole), chunk,
            [&](Value first) { addChunk(first, chunk); });
  if (whole < shape.depth)
    addChunk(math.constant(whole), shape.depth - whole);
  math.loop(itemBlocks.begin, itemBlocks.end, 1, [&](Value block) {
    math.loop(itemPanels.begin, itemPanels.end, 1, [&](Value number) {
      withColumns(number,
                  [&](int64_t used) { storePanel(block, number, used); });
    });
  });
}

void CpuGemmEmitter::addChunk(Value first, int64_t count) {
  if (blocks.packsRight())
    forTerms(terms.panelPlane, [&](Value plane) {
      packPanels(rhs, indicesOf(shape.rhsBatch), itemPanels, first, count,
                 panel.memory, plane, contraction.steps(chunk),
                 /*inOrder=*/storesAccumulators());
    });
  if (blocks.packsLeft() && inSteps)
    packLines(first, count);
  math.loop(itemBlocks.begin, itemBlocks.end, 1,
            [&](Value block) { addBlock(block, first, count); });
}

/// Packs the parts of `count` rows of the left side from `first` on that the
/// item's blocks need, in memory order.
void CpuGemmEmitter::packLines(Value first, int64_t count) {
  // Number of blocks after which a whole run can still be read.
  int64_t longBlocks = 0;
  auto endOfRun = [&](int64_t block) {
    return block * split.rows + std::min(block, split.larger) + runRows;
  };
  while (longBlocks < split.blocks && endOfRun(longBlocks) <= shape.m)
    ++longBlocks;
  Value begin = itemBlocks.begin, end = itemBlocks.end;
  Value middle = values.maximum(begin, math.min(end, longBlocks));
  forSteps(count, [&](Value step, Value k, int64_t positions) {
    Value position = math.add(first, k);
    auto target = [&](Value block) {
      return math.add(math.mul(math.sub(block, begin), blockPitch),
                      math.mul(step, rowPitch));
    };
    if (longBlocks)
      math.loop(begin, middle, 1, [&](Value block) {
        packRowColumn(rowsOf(block), runRows, position, positions,
                      target(block));
      });
    math.loop(middle, end, 1, [&](Value block) {
      BlockRows rows = rowsOf(block);
      rows.with([&](int64_t size) {
        packRowColumn(rows, size, position, positions, target(block));
      });
    });
  });
}

/// Packs the part of a block of `size` rows in a step of the left side's rows
/// from `k` on.
void CpuGemmEmitter::packRowColumn(const BlockRows &rows, int64_t size, Value k,
                                   int64_t count, Value to) {
  SmallVector<Value> at = indicesOf(shape.lhsBatch);
  fetchLines(lhs, at, k, count, rows.first(), size);
  at.append({Value(), Value()});
  forPowers(size, 2 * lanes, [&](int64_t row, int64_t run) {
    at.back() = math.add(rows.first(), row);
    auto line = [&](Value position) {
      at.end()[-2] = position;
      return load(lhs, at, run);
    };
    store(wordsOf(k, count, line), rowMemory, math.add(to, row));
  });
}

void CpuGemmEmitter::addBlock(Value block, Value first, int64_t count) {
  BlockRows blockRows = rowsOf(block);
  Value row = blockRows.first(), base = math.constant(0);
  if (!blocks.packsLeft()) {
    base = math.add(rowBase, math.mul(row, transposed ? 1 : rowPitch));
    base = math.add(base, math.mul(first, transposed ? rowPitch : 1));
  } else if (!transposed) {
    auto indices = [&](Value r) {
      return rowIndices(math.add(row, r), /*ofResult=*/false);
    };
    forTerms(terms.rowPlane, [&](Value plane) {
      packRows(lhs, indices, blockRows.count(), first, count, rowMemory, plane,
               rowPitch);
    });
  } else if (!inSteps) {
    SmallVector<Value> at = indicesOf(shape.lhsBatch);
    at.append({Value(), Value()});
    blockRows.with([&](int64_t size) {
      forTerms(terms.rowPlane, [&](Value plane) {
        packRowsAcross(size, count, rowMemory, math.add(base, plane), rowPitch,
                       [&](Value r, Value k, int64_t run) {
                         at.end()[-2] = math.add(first, k);
                         at.back() = math.add(row, r);
                         return load(lhs, at, run);
                       });
      });
    });
  } else {
    base = math.mul(math.sub(block, itemBlocks.begin), blockPitch);
  }
  auto resultRow = [&](Value r) {
    return rowIndices(math.add(row, r), /*ofResult=*/true);
  };
  math.loop(itemPanels.begin, itemPanels.end, 1, [&](Value number) {
    Value local = number;
    if (blocks.packsRight())
      local = math.sub(number, itemPanels.begin);
    int64_t depth = blocks.packsRight() ? chunk : shape.depth;
    panel.number = number;
    panel.offset =
        math.mul(local, contraction.steps(depth) * panel.stepPitch());
    if (!blocks.packsRight())
      panel.offset = math.add(
          panel.offset, math.mul(math.div(first, contraction.depthOfStep()),
                                 panel.stepPitch()));
    Value tile = tileOf(block, number);
    withColumns(number, [&](int64_t used) {
      int64_t vectors = tailVectors(panel.form, columns, used, lanes);
      prefetchResiduals(blockRows.count(), resultRow, math.mul(number, columns),
                        used);
      blockRows.with([&](int64_t rows) {
        SmallVector<int64_t> offsets;
        for (int64_t r = 0; r < rows; ++r)
          offsets.push_back(inSteps ? r : r * rowPitch);
        multiply(offsets, vectors, rowMemory, base,
                 inSteps ? KLoop{contraction.steps(count), rowPitch}
                         : contraction.loopOver(count),
                 tile, rowsAhead(base, number, rows));
      });
      if (!storesAccumulators())
        storePanel(block, number, used);
    });
  });
}

/// Each panel's steps prefetch a part of the next block of `rows` rows.
RowPrefetch CpuGemmEmitter::rowsAhead(Value base, Value number, int64_t rows) {
  if (!blocks.fetchesRows())
    return {};
  int64_t elements = rows * rowPitch;
  int64_t stride = llvm::divideCeil(
      elements, panelsPerItem * contraction.steps(shape.depth));
  Value part = math.mul(math.sub(number, itemPanels.begin),
                        stride * contraction.steps(shape.depth));
  return {math.add(math.add(base, elements), part), stride};
}

void CpuGemmEmitter::storePanel(Value block, Value number, int64_t used) {
  BlockRows rows = rowsOf(block);
  auto indices = [&](Value r) {
    return rowIndices(math.add(rows.first(), r), /*ofResult=*/true);
  };
  auto result = cast<RankedTensorType>(contraction.op->getResult(0).getType());
  storeSums(tileOf(block, number), rows.count(), indices, result.getRank() - 1,
            math.mul(number, columns), used);
}

FailureOr<int64_t> cpu::emitCpuGemm(const ContractionKernel &kernel) {
  if (kernel.contraction.splitsRows())
    return emitInt8SliceGemm(kernel);
  return CpuGemmEmitter(kernel).run();
}
