//===- ContractionEmitter.cpp - matmul kernels ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One work item is a group of row blocks times a group of panels of one batch.
// Rows are read in place where they are stored in the type of the sums, else
// widened once per row block; panels are constants or packed once per item.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Panels of one item stay in the second-level cache.
static constexpr int64_t kPanelCacheBytes = 512 << 10;
/// Enough items to keep a few threads busy.
static constexpr int64_t kWantedItems = 8;

namespace {
class MatmulEmitter : ProductShape {
public:
  MatmulEmitter(func::FuncOp kernel, func::FuncOp impl,
                const MatrixProduct &product, const ProductShape &shape,
                const CpuTarget &target)
      : ProductShape(shape), context(kernel, impl, product.op, target),
        product(product), op(product.op), target(target),
        b(impl.getBody().front().getTerminator()), math{b, op->getLoc()} {}

  FailureOr<EmittedKernel> run() {
    if (failed(context.checkResults()) || failed(analyze()))
      return failure();
    chooseGroups();
    emit();
    if (failed(status))
      return failure();
    EmittedKernel result;
    result.items = batch * rowGroups * panelGroups;
    result.scratchBytes = scratchBytes;
    double flopsPerCycle = 4.0 * vectorLanes(sumType, target);
    result.grain = grainOf(2.0 * m * panels * columns * depth * batch /
                           flopsPerCycle / result.items);
    return result;
  }

private:
  LogicalResult analyze();
  void chooseGroups();
  void emit();
  void emitItem(Value item);
  void emitRowBlock(Value block, Value panelBegin, Value panelEnd);
  void emitPanel(Value panel, int64_t used, const BlockRows &rows,
                 Value rowCount);
  void emitSums(int64_t rows, int64_t vectors, Value base);

  /// Indices of an operand's batch dimensions for the current batch.
  SmallVector<Value> batchIndices(ArrayRef<int64_t> operandBatch) {
    return ProductShape::batchIndices(math, operandBatch, batchPosition);
  }
  /// Row-major position of those indices.
  Value batchOffset(ArrayRef<int64_t> operandBatch);

  ContractionKernel context;
  MatrixProduct product;
  Operation *op;
  CpuTarget target;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();

  // Operands.
  Type sumType;
  bool rowsInPlace = false, transposedRows = false, packedPanels = false;
  Panel panel; // offset is set per item
  int64_t columns = 0, panels = 0, lanes = 0;
  Value rowMemory, tile;
  int64_t rowPitch = 0;

  // Cutting.
  RowSplit split{1, 1};
  int64_t rowGroups = 1, panelGroups = 1, blocksPerGroup = 1,
          panelsPerGroup = 1;
  int64_t scratchBytes = 0;

  // State of the item being emitted.
  SmallVector<Value> batchPosition;
  Value rowBase, panelBeginOfItem;
};
} // namespace

LogicalResult MatmulEmitter::analyze() {
  auto lhs = cast<RankedTensorType>(product.lhs.getType());
  auto rhs = cast<RankedTensorType>(product.rhs.getType());
  sumType = sumTypeOf(op);
  lanes = vectorLanes(sumType, target);
  transposedRows = product.transposeLhs;
  PackedAttr packed = product.packed;
  packedPanels = packed != nullptr;

  columns = target.blockColumns();
  if (packedPanels) {
    columns = packed.getColumns();
    FailureOr<PanelForm> form =
        panelFormOf(op, packed, rhs.getElementType(), sumType, target);
    if (failed(form))
      return failure();
    panel.form = *form;
    if (!context.memoryOf(product.rhs))
      return op->emitError(
          "a packed operand must be an argument of the kernel");
  } else {
    columns =
        std::min<int64_t>(columns, llvm::PowerOf2Ceil(std::max(n, lanes)));
  }
  panel.columns = columns;
  panels = llvm::divideCeil(n, columns);
  split = RowSplit(m, maxBlockRows(columns / lanes, target));

  // Rows stand in memory as they are needed where no element has to be widened.
  rowsInPlace = context.memoryOf(product.lhs) &&
                memoryElementType(lhs.getElementType()) == sumType;
  if (!rowsInPlace)
    rowPitch = transposedRows ? split.largest() : depth;
  else
    rowPitch = transposedRows ? m : depth;
  // Rows at a distance of 4 KB would share one cache set.
  if (!rowsInPlace && !transposedRows && rowPitch * 4 % 4096 == 0)
    rowPitch += 16;
  return success();
}

void MatmulEmitter::chooseGroups() {
  int64_t elementBytes =
      packedPanels
          ? bytesPerElement(getElementTypeOrSelf(product.rhs.getType()))
          : bytesPerElement(sumType);
  int64_t panelBytes = std::max<int64_t>(1, depth * columns * elementBytes);
  panelsPerGroup =
      std::clamp<int64_t>(kPanelCacheBytes / panelBytes, 1, panels);
  // Panels that come from memory, or are packed here, pay for themselves over
  // many rows.
  blocksPerGroup = std::min<int64_t>(split.blocks, packedPanels ? 32 : 64);
  auto items = [&] {
    return batch * llvm::divideCeil(split.blocks, blocksPerGroup) *
           llvm::divideCeil(panels, panelsPerGroup);
  };
  int64_t fewestPanels = rowsInPlace ? 1 : std::min<int64_t>(panels, 4);
  while (items() < kWantedItems && panelsPerGroup / 2 >= fewestPanels)
    panelsPerGroup = llvm::divideCeil(panelsPerGroup, 2);
  while (items() < kWantedItems && blocksPerGroup > (packedPanels ? 1 : 8))
    blocksPerGroup = llvm::divideCeil(blocksPerGroup, 2);
  rowGroups = llvm::divideCeil(split.blocks, blocksPerGroup);
  panelGroups = llvm::divideCeil(panels, panelsPerGroup);
}

Value MatmulEmitter::batchOffset(ArrayRef<int64_t> operandBatch) {
  Value offset = math.constant(0);
  for (auto [index, extent] :
       llvm::zip_equal(batchIndices(operandBatch), operandBatch))
    offset = math.add(math.mul(offset, extent), index);
  return offset;
}

void MatmulEmitter::emit() {
  int64_t sumBytes = bytesPerElement(sumType);
  int64_t rowElements =
      transposedRows ? depth * rowPitch : split.largest() * rowPitch;
  auto round = [](int64_t bytes) { return llvm::alignTo(bytes, 64); };
  int64_t rowBytes = rowsInPlace ? 0 : round(rowElements * sumBytes);
  int64_t panelBytes =
      packedPanels ? 0 : round(panelsPerGroup * depth * columns * sumBytes);
  scratchBytes = rowBytes + panelBytes;

  const ImplArguments &arguments = context.arguments;
  rowMemory = rowsInPlace
                  ? math.flatten(context.memoryOf(product.lhs))
                  : math.view(arguments.scratch, 0, rowElements, sumType);
  panel.memory = packedPanels
                     ? math.flatten(context.memoryOf(product.rhs))
                     : math.view(arguments.scratch, rowBytes,
                                 panelsPerGroup * depth * columns, sumType);
  tile = memref::AllocaOp::create(
      b, op->getLoc(), MemRefType::get({split.largest() * columns}, sumType),
      b.getI64IntegerAttr(64));
  math.loop(arguments.begin, arguments.end, 1,
            [&](Value item) { emitItem(item); });
}

void MatmulEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {batch, panelGroups, rowGroups});
  batchPosition.clear();
  if (!flattened)
    batchPosition = math.delinearize(position[0], batchShape);
  Value panelBegin = math.mul(position[1], panelsPerGroup);
  Value panelEnd = math.min(math.add(panelBegin, panelsPerGroup), panels);
  Value blockBegin = math.mul(position[2], blocksPerGroup);
  Value blockEnd = math.min(math.add(blockBegin, blocksPerGroup), split.blocks);
  panelBeginOfItem = panelBegin;

  if (!packedPanels)
    math.loop(panelBegin, panelEnd, 1, [&](Value number) {
      Value offset = math.mul(math.sub(number, panelBegin), depth * columns);
      if (failed(context.packPanel(b, product.rhs, batchIndices(rhsBatch),
                                   product.transposeRhs, number, columns,
                                   panel.memory, offset)))
        status = failure();
    });
  rowBase = rowsInPlace && !flattened
                ? math.mul(batchOffset(lhsBatch), m * depth)
                : math.constant(0);
  math.loop(blockBegin, blockEnd, 1,
            [&](Value block) { emitRowBlock(block, panelBegin, panelEnd); });
}

void MatmulEmitter::emitRowBlock(Value block, Value panelBegin,
                                 Value panelEnd) {
  BlockRows blockRows(math, split, block);
  Value row = blockRows.first(), rowCount = blockRows.count();
  if (!rowsInPlace && !transposedRows) {
    auto indices = [&](Value r) {
      Value number = math.add(row, r);
      return flattened ? math.delinearize(number, rowShape) : [&] {
        SmallVector<Value> at = batchIndices(lhsBatch);
        at.push_back(number);
        return at;
      }();
    };
    if (failed(context.packRows(b, product.lhs, indices, rowCount, depth,
                                rowMemory, rowPitch)))
      status = failure();
  } else if (!rowsInPlace) {
    blockRows.with([&](int64_t rows) {
      auto indices = [&](Value k) {
        SmallVector<Value> at = batchIndices(lhsBatch);
        at.push_back(k);
        return at;
      };
      if (failed(context.packColumns(b, product.lhs, indices, row, rows, depth,
                                     rowMemory, rowPitch)))
        status = failure();
    });
  }

  math.loop(panelBegin, panelEnd, 1, [&](Value number) {
    withPanelColumns(math, number, panels, columns, n, [&](int64_t used) {
      emitPanel(number, used, blockRows, rowCount);
    });
  });
}

void MatmulEmitter::emitSums(int64_t rows, int64_t vectors, Value base) {
  SumBlock block;
  block.type = sumType;
  block.lanes = lanes;
  block.vectors = vectors;
  for (int64_t r = 0; r < rows; ++r)
    block.rowOffsets.push_back(transposedRows ? r : r * rowPitch);
  KLoop loop{depth, transposedRows ? rowPitch : 1};
  SmallVector<Value> sums =
      emitMicroKernel(b, op->getLoc(), block, rowMemory, base, panel, loop);
  storeSums(b, op->getLoc(), block, sums, tile, columns);
}

void MatmulEmitter::emitPanel(Value number, int64_t used, const BlockRows &rows,
                              Value rowCount) {
  Value row = rows.first();
  Value base = math.constant(0);
  if (rowsInPlace)
    base = math.add(rowBase, math.mul(row, transposedRows ? 1 : rowPitch));
  Value local = packedPanels ? number : math.sub(number, panelBeginOfItem);
  panel.offset = math.mul(local, depth * columns);
  int64_t vectors = tailVectors(panel, used, lanes);
  rows.with([&](int64_t count) { emitSums(count, vectors, base); });

  auto indices = [&](Value r) {
    Value position = math.add(row, r);
    if (flattened)
      return math.delinearize(position, rowShape);
    SmallVector<Value> at(batchPosition);
    at.push_back(position);
    return at;
  };
  unsigned columnDim =
      cast<RankedTensorType>(op->getResult(0).getType()).getRank() - 1;
  if (failed(context.storeTile(b, tile, columns, rowCount, indices, columnDim,
                               math.mul(number, columns), used)))
    status = failure();
}

FailureOr<EmittedKernel> mpc::emitMatrixProduct(func::FuncOp kernel,
                                                func::FuncOp impl,
                                                const MatrixProduct &product,
                                                const CpuTarget &target) {
  if (elementCount(product.op->getResult(0)) == 0)
    return EmittedKernel{0, 1, 0};
  FailureOr<ProductShape> shape = ProductShape::get(product);
  if (failed(shape))
    return failure();
  if (isBlockedProduct(product, *shape))
    return emitBlockedProduct(kernel, impl, product, *shape, target);
  return MatmulEmitter(kernel, impl, product, *shape, target).run();
}

FailureOr<EmittedKernel> mpc::emitContraction(func::FuncOp kernel,
                                              func::FuncOp impl,
                                              const CpuTarget &target) {
  MatmulOp op;
  kernel.walk([&](MatmulOp found) { op = found; });
  return emitMatrixProduct(kernel, impl,
                           {op, op.getLhs(), op.getRhs(), op.getTransposeLhs(),
                            op.getTransposeRhs(), op.getPackedAttr()},
                           target);
}
