//===- BlockedProduct.cpp - matmul kernels cut along their depth ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of operands that are no constants and large: those of a training
// step. One work item is a group of rows times a group of panels. It goes along
// K in chunks, so that the panels of a chunk stay in the second-level cache and
// a block of rows in the first; sums wait in scratch memory in between.
// Operands are copied in the order in which they lie in memory.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Positions of K in a chunk.
static constexpr int64_t kChunk = 512;
/// Panels of a chunk and, where rows are stored along K's other side, rows of a
/// chunk.
static constexpr int64_t kPanelBytes = 512 << 10;
static constexpr int64_t kRowBytes = 768 << 10;
/// Rows of a group that are worth packing its panels.
static constexpr int64_t kMostRows = 768;
/// Items that are made at the cost of packing panels more often, and the fewest
/// rows that panels are packed for then.
static constexpr int64_t kWantedItems = 4;
static constexpr int64_t kFewestRows = 96;
/// Below this many multiply-adds of a batch the operands fit the caches anyway.
static constexpr int64_t kLeastWork = int64_t(1) << 22;

bool mpc::isBlockedProduct(const MatrixProduct &product,
                           const ProductShape &shape) {
  if (product.packed || shape.m * shape.n * shape.depth < kLeastWork)
    return false;
  return shape.depth > kChunk || product.transposeLhs;
}

namespace {
class BlockedEmitter : ProductShape {
public:
  BlockedEmitter(func::FuncOp kernel, func::FuncOp impl,
                 const MatrixProduct &product, const ProductShape &shape,
                 const CpuTarget &target)
      : ProductShape(shape), context(kernel, impl, product.op, target),
        product(product), op(product.op), target(target),
        b(impl.getBody().front().getTerminator()), math{b, op->getLoc()} {}

  FailureOr<EmittedKernel> run() {
    if (failed(context.checkResults()))
      return failure();
    analyze();
    chooseGroups();
    emit();
    if (failed(status))
      return failure();
    EmittedKernel result;
    result.items = batch * rowGroups * panelGroups;
    result.scratchBytes = scratchBytes;
    double flopsPerCycle = 4.0 * lanes;
    result.grain = grainOf(2.0 * m * panels * columns * depth * batch /
                           flopsPerCycle / result.items);
    return result;
  }

private:
  void analyze();
  void chooseGroups();
  void emit();
  void emitItem(Value item);
  void clearSums();
  void addChunk(Value first, int64_t count);
  void packPanels(Value first, int64_t count);
  void packRowGroup(Value first, int64_t count);
  void addBlock(Value block, Value first, int64_t count);
  void addSums(int64_t rows, int64_t vectors, int64_t count, Value base,
               Value sums);
  void storeBlock(Value block);

  SmallVector<Value> indicesOf(ArrayRef<int64_t> operandBatch) {
    return batchIndices(math, operandBatch, batchPosition);
  }
  BlockRows rowsOf(Value block) { return {math, split, block}; }
  int64_t tileElements() const { return split.largest() * columns; }
  /// Where the sums of a block and panel stand, both counted from the item's
  /// first.
  Value sumsOffset(Value block, Value number) {
    Value place =
        math.add(math.mul(math.sub(block, blockBegin), panelsPerGroup),
                 math.sub(number, panelBegin));
    return math.mul(place, tileElements());
  }

  ContractionKernel context;
  MatrixProduct product;
  Operation *op;
  CpuTarget target;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();

  Type sumType;
  int64_t lanes = 0, columns = 0, panels = 0, chunk = 0;
  Panel panel; // offset is set per panel
  /// Rows are read where they lie, in their own order or K's.
  bool rowsInPlace = false;
  bool transposedRows = false;
  RowSplit split{1, 1};
  int64_t blocksPerGroup = 1, rowGroups = 1, panelsPerGroup = 1,
          panelGroups = 1;
  /// Elements between rows (between blocks where rows are packed by group).
  int64_t rowPitch = 0, blockPitch = 0;
  int64_t scratchBytes = 0, sumsStart = 0;
  Value rowMemory, sumsMemory;

  // State of the item being emitted.
  SmallVector<Value> batchPosition;
  Value panelBegin, panelEnd, blockBegin, blockEnd, rowBase;
};
} // namespace

void BlockedEmitter::analyze() {
  sumType = sumTypeOf(op);
  lanes = vectorLanes(sumType, target);
  columns = std::min<int64_t>(target.blockColumns(),
                              llvm::PowerOf2Ceil(std::max(n, lanes)));
  panel.columns = columns;
  panels = llvm::divideCeil(n, columns);
  split = RowSplit(m, maxBlockRows(columns / lanes, target));
  transposedRows = product.transposeLhs;
  chunk = std::min(kChunk, depth);
  // Chunks alike need code for one length only.
  for (int64_t count = chunk; count >= kChunk / 2; --count)
    if (depth % count == 0) {
      chunk = count;
      break;
    }
}

void BlockedEmitter::chooseGroups() {
  int64_t bytes = bytesPerElement(sumType);
  panelsPerGroup = std::clamp<int64_t>(
      kPanelBytes / std::max<int64_t>(1, chunk * columns * bytes), 1, panels);
  int64_t mostRows = kMostRows;
  if (transposedRows)
    mostRows =
        std::min(mostRows, std::max<int64_t>(kRowBytes / (chunk * bytes), 1));
  int64_t most = std::max<int64_t>(1, mostRows / split.largest());
  auto items = [&] {
    return batch * llvm::divideCeil(split.blocks, blocksPerGroup) *
           llvm::divideCeil(panels, panelsPerGroup);
  };
  // Groups of almost equal size.
  blocksPerGroup =
      llvm::divideCeil(split.blocks, llvm::divideCeil(split.blocks, most));
  panelsPerGroup =
      llvm::divideCeil(panels, llvm::divideCeil(panels, panelsPerGroup));
  while (items() < kWantedItems && panelsPerGroup > 4)
    panelsPerGroup = llvm::divideCeil(panelsPerGroup, 2);
  while (items() < kWantedItems &&
         blocksPerGroup * split.rows >= 2 * kFewestRows)
    blocksPerGroup = llvm::divideCeil(blocksPerGroup, 2);
  rowGroups = llvm::divideCeil(split.blocks, blocksPerGroup);
  panelGroups = llvm::divideCeil(panels, panelsPerGroup);

  auto lhs = cast<RankedTensorType>(product.lhs.getType());
  // Rows at a distance of 4 KB would share one cache set: they are copied where
  // several panels read them.
  bool collides = depth * bytes % 4096 == 0 && panelsPerGroup >= 4;
  rowsInPlace = !transposedRows && !collides && context.memoryOf(product.lhs) &&
                memoryElementType(lhs.getElementType()) == sumType;
  if (transposedRows) {
    rowPitch = split.largest();
    // One cache line more than a multiple keeps blocks out of each other's way.
    blockPitch = llvm::alignTo(chunk * rowPitch, 1024) + 64 / bytes;
  } else {
    rowPitch = rowsInPlace ? depth : chunk + 16;
  }
}

void BlockedEmitter::emit() {
  int64_t bytes = bytesPerElement(sumType);
  auto round = [](int64_t size) { return llvm::alignTo(size, 64); };
  int64_t rowElements = rowsInPlace      ? 0
                        : transposedRows ? blocksPerGroup * blockPitch
                                         : split.largest() * rowPitch;
  int64_t panelElements = panelsPerGroup * chunk * columns;
  int64_t sumElements = blocksPerGroup * panelsPerGroup * tileElements();
  int64_t panelStart = round(rowElements * bytes);
  sumsStart = panelStart + round(panelElements * bytes);
  scratchBytes = sumsStart + sumElements * bytes;

  const ImplArguments &arguments = context.arguments;
  rowMemory = rowsInPlace
                  ? math.flatten(context.memoryOf(product.lhs))
                  : math.view(arguments.scratch, 0, rowElements, sumType);
  panel.memory =
      math.view(arguments.scratch, panelStart, panelElements, sumType);
  sumsMemory = math.view(arguments.scratch, sumsStart, sumElements, sumType);
  math.loop(arguments.begin, arguments.end, 1,
            [&](Value item) { emitItem(item); });
}

void BlockedEmitter::clearSums() {
  auto type = VectorType::get({lanes}, sumType);
  Value zero =
      arith::ConstantOp::create(b, op->getLoc(), type, b.getZeroAttr(type));
  int64_t count = blocksPerGroup * panelsPerGroup * tileElements();
  math.loop(math.constant(0), math.constant(count), lanes, [&](Value at) {
    vector::StoreOp::create(b, op->getLoc(), zero, sumsMemory, at);
  });
}

void BlockedEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {batch, panelGroups, rowGroups});
  batchPosition.clear();
  if (!flattened)
    batchPosition = math.delinearize(position[0], batchShape);
  panelBegin = math.mul(position[1], panelsPerGroup);
  panelEnd = math.min(math.add(panelBegin, panelsPerGroup), panels);
  blockBegin = math.mul(position[2], blocksPerGroup);
  blockEnd = math.min(math.add(blockBegin, blocksPerGroup), split.blocks);
  rowBase = math.constant(0);
  if (rowsInPlace && !flattened) {
    for (auto [index, extent] : llvm::zip_equal(indicesOf(lhsBatch), lhsBatch))
      rowBase = math.add(math.mul(rowBase, extent), index);
    rowBase = math.mul(rowBase, m * depth);
  }

  clearSums();
  int64_t whole = depth / chunk * chunk;
  math.loop(math.constant(0), math.constant(whole), chunk,
            [&](Value first) { addChunk(first, chunk); });
  if (whole < depth)
    addChunk(math.constant(whole), depth - whole);
  math.loop(blockBegin, blockEnd, 1, [&](Value block) { storeBlock(block); });
}

void BlockedEmitter::addChunk(Value first, int64_t count) {
  packPanels(first, count);
  if (transposedRows)
    packRowGroup(first, count);
  math.loop(blockBegin, blockEnd, 1,
            [&](Value block) { addBlock(block, first, count); });
}

void BlockedEmitter::packPanels(Value first, int64_t count) {
  SmallVector<Value> leading = indicesOf(rhsBatch);
  auto offsetOf = [&](Value number) {
    return math.mul(math.sub(number, panelBegin), chunk * columns);
  };
  auto packOne = [&](Value number, Value from, int64_t length, Value offset) {
    if (failed(context.packPanel(b, product.rhs, leading, product.transposeRhs,
                                 number, columns, panel.memory, offset,
                                 ContractionKernel::DepthRange{from, length})))
      status = failure();
  };
  if (product.transposeRhs) {
    math.loop(panelBegin, panelEnd, 1, [&](Value number) {
      packOne(number, first, count, offsetOf(number));
    });
    return;
  }
  // A row of the right side goes to all panels before the next row is read.
  math.loop(count, [&](Value k) {
    math.loop(panelBegin, panelEnd, 1, [&](Value number) {
      packOne(number, math.add(first, k), 1,
              math.add(offsetOf(number), math.mul(k, columns)));
    });
  });
}

/// Copies the columns of the left side that the group's blocks need: each block
/// as [k][row].
void BlockedEmitter::packRowGroup(Value first, int64_t count) {
  SmallVector<Value> leading = indicesOf(lhsBatch);
  math.loop(count, [&](Value k) {
    SmallVector<Value> at(leading);
    at.append({math.add(first, k), Value()});
    math.loop(blockBegin, blockEnd, 1, [&](Value block) {
      BlockRows rows = rowsOf(block);
      Value to = math.add(math.mul(math.sub(block, blockBegin), blockPitch),
                          math.mul(k, rowPitch));
      rows.with([&](int64_t count) {
        for (const Chunk &run :
             chunksOf(count, lanes, CpuTarget{CpuIsa::Avx2})) {
          at.back() = math.add(rows.first(), run.offset);
          if (failed(context.copyRun(b, product.lhs, at, run.lanes, rowMemory,
                                     math.add(to, run.offset))))
            status = failure();
        }
      });
    });
  });
}

void BlockedEmitter::addBlock(Value block, Value first, int64_t count) {
  BlockRows blockRows = rowsOf(block);
  Value row = blockRows.first(), base;
  if (transposedRows) {
    base = math.mul(math.sub(block, blockBegin), blockPitch);
  } else if (rowsInPlace) {
    base = math.add(math.add(rowBase, math.mul(row, rowPitch)), first);
  } else {
    base = math.constant(0);
    auto indices = [&](Value r) {
      Value number = math.add(row, r);
      if (flattened)
        return math.delinearize(number, rowShape);
      SmallVector<Value> at = indicesOf(lhsBatch);
      at.push_back(number);
      return at;
    };
    if (failed(context.packRows(b, product.lhs, indices, blockRows.count(),
                                count, rowMemory, rowPitch, first)))
      status = failure();
  }
  math.loop(panelBegin, panelEnd, 1, [&](Value number) {
    panel.offset = math.mul(math.sub(number, panelBegin), chunk * columns);
    Value sums = sumsOffset(block, number);
    withPanelColumns(math, number, panels, columns, n, [&](int64_t used) {
      int64_t vectors = tailVectors(panel, used, lanes);
      blockRows.with(
          [&](int64_t rows) { addSums(rows, vectors, count, base, sums); });
    });
  });
}

void BlockedEmitter::addSums(int64_t rows, int64_t vectors, int64_t count,
                             Value base, Value sums) {
  SumBlock block;
  block.type = sumType;
  block.lanes = lanes;
  block.vectors = vectors;
  for (int64_t r = 0; r < rows; ++r)
    block.rowOffsets.push_back(transposedRows ? r : r * rowPitch);
  KLoop loop{count, transposedRows ? rowPitch : 1};
  SmallVector<Value> products =
      emitMicroKernel(b, op->getLoc(), block, rowMemory, base, panel, loop);
  addToSums(b, op->getLoc(), block, products, sumsMemory, columns, sums);
}

void BlockedEmitter::storeBlock(Value block) {
  BlockRows rows = rowsOf(block);
  Value rowCount = rows.count();
  auto indices = [&](Value r) {
    Value position = math.add(rows.first(), r);
    if (flattened)
      return math.delinearize(position, rowShape);
    SmallVector<Value> at(batchPosition);
    at.push_back(position);
    return at;
  };
  unsigned columnDim =
      cast<RankedTensorType>(op->getResult(0).getType()).getRank() - 1;
  math.loop(panelBegin, panelEnd, 1, [&](Value number) {
    Value start =
        math.add(math.mul(sumsOffset(block, number), bytesPerElement(sumType)),
                 sumsStart);
    Value tile = memref::ViewOp::create(
        b, op->getLoc(), MemRefType::get({tileElements()}, sumType),
        context.arguments.scratch, start, ValueRange{});
    withPanelColumns(math, number, panels, columns, n, [&](int64_t used) {
      if (failed(context.storeTile(b, tile, columns, rowCount, indices,
                                   columnDim, math.mul(number, columns), used)))
        status = failure();
    });
  });
}

FailureOr<EmittedKernel> mpc::emitBlockedProduct(func::FuncOp kernel,
                                                 func::FuncOp impl,
                                                 const MatrixProduct &product,
                                                 const ProductShape &shape,
                                                 const CpuTarget &target) {
  return BlockedEmitter(kernel, impl, product, shape, target).run();
}
