//===- ConvolutionEmitter.cpp - conv kernels ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Direct convolution as an implicit matrix product: a block of output pixels
// times a panel of output channels, K running over the window and the channels
// of a padded region. One work item is a strip of output rows of one image
// times a group of panels.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"
#include "ConvolutionGeometry.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Regions of one item stay in the second-level cache.
static constexpr int64_t kRegionBytes = 384 << 10;
static constexpr int64_t kPanelCacheBytes = 512 << 10;
static constexpr int64_t kWantedItems = 8;

namespace {
class ConvEmitter {
public:
  ConvEmitter(func::FuncOp kernel, func::FuncOp impl, ConvOp op,
              const CpuTarget &target, const ConvolutionGeometry &geometry)
      : context(kernel, impl, op, target), op(op), target(target), g(geometry),
        b(impl.getBody().front().getTerminator()), math{b, op.getLoc()} {}

  FailureOr<EmittedKernel> run() {
    if (failed(context.checkResults()) || failed(analyze()))
      return failure();
    chooseItems();
    emit();
    if (failed(status))
      return failure();
    EmittedKernel result;
    result.items = g.batch * g.out[0] * stripGroups * panelGroups;
    result.scratchBytes = scratchBytes;
    double flopsPerCycle = 4.0 * lanes;
    double flops = 2.0 * g.batch * g.out[0] * g.out[1] * g.out[2] * panels *
                   columns * g.depth();
    result.grain = grainOf(flops / flopsPerCycle / result.items);
    return result;
  }

private:
  LogicalResult analyze();
  void chooseItems();
  void packFilter();
  void packStoredFilter(Value memory);
  void packFilterElement(Value number, Value local, Value k, Value column);
  void emit();
  void emitItem(Value item);
  void emitPanel(Value number, Value strip, Value region);
  void emitSums(int64_t height, int64_t width, int64_t vectors, Value base);

  ContractionKernel context;
  ConvOp op;
  CpuTarget target;
  const ConvolutionGeometry &g;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();

  Type sumType;
  int64_t lanes = 0, columns = 0;
  int64_t panelsOfGroup = 0, panels = 0;
  bool packed = false;
  Panel panel; // offset is set per panel
  Value tile;

  /// Blocks are one row of up to N pixels, or several whole rows of a narrow
  /// image.
  RowSplit rowSplit{1, 1}, columnSplit{1, 1};
  int64_t stripsPerItem = 1, stripGroups = 1, panelsPerItem = 1,
          panelGroups = 1;
  int64_t scratchBytes = 0;
  std::optional<RegionReader> reader;

  Value image, plane, firstRow;
};
} // namespace

LogicalResult ConvEmitter::analyze() {
  sumType = sumTypeOf(op);
  lanes = vectorLanes(sumType, target);
  packed = op.getPackedAttr() != nullptr;
  if (packed) {
    columns = op.getPackedAttr().getColumns();
    Type element = getElementTypeOrSelf(op.getFilter().getType());
    FailureOr<PanelForm> form =
        panelFormOf(op, op.getPackedAttr(), element, sumType, target);
    if (failed(form))
      return failure();
    panel.form = *form;
    if (!context.memoryOf(op.getFilter()))
      return op.emitError("a packed filter must be an argument of the kernel");
  } else {
    columns = std::min<int64_t>(
        target.blockColumns(),
        llvm::PowerOf2Ceil(std::max(g.groupOutputs(), lanes)));
  }
  panel.columns = columns;
  panelsOfGroup = llvm::divideCeil(g.groupOutputs(), columns);
  panels = g.groups * panelsOfGroup;
  // A last panel that is mostly padding leaves registers for more pixels.
  int64_t vectors = panelsOfGroup == 1
                        ? tailVectors(panel, g.groupOutputs(), lanes)
                        : columns / lanes;
  int64_t most = maxBlockRows(vectors, target);
  columnSplit = RowSplit(g.out[2], most);
  rowSplit = RowSplit(g.out[1], g.out[2] < most ? most / g.out[2] : 1);
  return success();
}

void ConvEmitter::chooseItems() {
  auto regionBytes = [&](int64_t strips) {
    int64_t rows = g.reach(1, strips * rowSplit.largest());
    return g.window[0] * rows * g.reach(2, g.out[2]) * g.channels *
           bytesPerElement(sumType);
  };
  stripsPerItem = rowSplit.blocks;
  while (stripsPerItem > 1 && regionBytes(stripsPerItem) > kRegionBytes)
    stripsPerItem = llvm::divideCeil(stripsPerItem, 2);
  panelsPerItem = panels;
  auto items = [&] {
    return g.batch * g.out[0] *
           llvm::divideCeil(rowSplit.blocks, stripsPerItem) *
           llvm::divideCeil(panels, panelsPerItem);
  };
  // Splitting panels copies regions again, splitting strips reads panels again.
  bool largePanels = panels * g.depth() * columns * 4 > kPanelCacheBytes;
  auto splitPanels = [&] {
    while (items() < kWantedItems && panelsPerItem > 1)
      panelsPerItem = llvm::divideCeil(panelsPerItem, 2);
  };
  if (largePanels)
    splitPanels();
  while (items() < kWantedItems && stripsPerItem > 1)
    stripsPerItem = llvm::divideCeil(stripsPerItem, 2);
  splitPanels();
  stripGroups = llvm::divideCeil(rowSplit.blocks, stripsPerItem);
  panelGroups = llvm::divideCeil(panels, panelsPerItem);
  reader.emplace(context, g, op.getInput(), sumType,
                 stripsPerItem * rowSplit.largest());
}

/// Packs column `column` of panel `number` at `k`, which counts window
/// positions and, within them, channels.
void ConvEmitter::packFilterElement(Value number, Value local, Value k,
                                    Value column) {
  Value group = math.div(number, panelsOfGroup);
  Value output = math.min(math.add(math.mul(local, columns), column),
                          g.groupOutputs() - 1);
  SmallVector<Value> window =
      math.delinearize(math.div(k, g.groupChannels()), g.window);
  SmallVector<Value> at{math.add(math.mul(group, g.groupOutputs()), output),
                        math.rem(k, g.groupChannels())};
  llvm::append_range(at, ArrayRef<Value>(window).take_back(g.spatialRank));
  Value target = math.add(math.mul(number, g.depth()), k);
  if (failed(context.copyRun(b, op.getFilter(), at, 1, panel.memory,
                             math.add(math.mul(target, columns), column))))
    status = failure();
}

/// A filter that is no packed constant is packed once per call.
void ConvEmitter::packFilter() {
  if (Value memory = context.memoryOf(op.getFilter()))
    return packStoredFilter(math.flatten(memory));
  math.loop(panels, [&](Value number) {
    Value local = math.rem(number, panelsOfGroup);
    math.loop(g.depth(), [&](Value k) {
      math.loop(columns, [&](Value column) {
        packFilterElement(number, local, k, column);
      });
    });
  });
}

/// The same from memory: squares of outputs times neighbours in memory, which
/// are window positions of one channel, are transposed in registers.
void ConvEmitter::packStoredFilter(Value memory) {
  int64_t depth = g.depth(), whole = depth - depth % lanes;
  Type element = getElementTypeOrSelf(op.getFilter().getType());
  auto placeOf = [&](Value position) {
    Value channel = math.div(position, g.windowSize());
    return math.add(
        math.mul(math.rem(position, g.windowSize()), g.groupChannels()),
        channel);
  };
  math.loop(panels, [&](Value number) {
    Value local = math.rem(number, panelsOfGroup);
    Value firstOutput =
        math.mul(math.div(number, panelsOfGroup), g.groupOutputs());
    Value start = math.mul(number, depth * columns);
    math.loop(math.constant(0), math.constant(whole), lanes, [&](Value from) {
      math.loop(
          math.constant(0), math.constant(columns), lanes, [&](Value column) {
            ElementEmitter emitter = context.makeEmitter(b);
            SmallVector<Value> rows;
            for (int64_t i = 0; i < lanes; ++i) {
              Value output = math.add(math.mul(local, columns), column);
              output = math.min(math.add(output, i), g.groupOutputs() - 1);
              Value at = math.add(
                  math.mul(math.add(firstOutput, output), depth), from);
              rows.push_back(context.toSumType(
                  b, emitter.load(memory, element, at, lanes), sumType));
            }
            for (auto [i, values] :
                 llvm::enumerate(transposeVectors(b, op.getLoc(), rows))) {
              Value k = placeOf(math.add(from, i));
              vector::StoreOp::create(
                  b, op.getLoc(), values, panel.memory,
                  math.add(math.add(start, column), math.mul(k, columns)));
            }
          });
    });
    math.loop(math.constant(whole), math.constant(depth), 1, [&](Value from) {
      math.loop(columns, [&](Value column) {
        packFilterElement(number, local, placeOf(from), column);
      });
    });
  });
}

void ConvEmitter::emit() {
  const ImplArguments &arguments = context.arguments;
  int64_t panelBytes =
      packed ? 0
             : llvm::alignTo(
                   panels * g.depth() * columns * bytesPerElement(sumType), 64);
  scratchBytes = panelBytes + reader->scratchBytes();
  panel.memory = packed ? math.flatten(context.memoryOf(op.getFilter()))
                        : math.view(arguments.scratch, 0,
                                    panels * g.depth() * columns, sumType);
  reader->prepare(b, panelBytes);
  int64_t pixels = rowSplit.largest() * columnSplit.largest();
  tile = memref::AllocaOp::create(b, op.getLoc(),
                                  MemRefType::get({pixels * columns}, sumType),
                                  b.getI64IntegerAttr(64));
  if (!packed)
    packFilter();
  math.loop(arguments.begin, arguments.end, 1,
            [&](Value item) { emitItem(item); });
}

void ConvEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {g.batch, g.out[0], stripGroups, panelGroups});
  image = position[0];
  plane = position[1];
  Value stripBegin = math.mul(position[2], stripsPerItem);
  Value stripEnd =
      math.min(math.add(stripBegin, stripsPerItem), rowSplit.blocks);
  Value panelBegin = math.mul(position[3], panelsPerItem);
  Value panelEnd = math.min(math.add(panelBegin, panelsPerItem), panels);
  firstRow = BlockRows(math, rowSplit, stripBegin).first();
  FailureOr<Value> region = reader->read(b, image, plane, firstRow);
  if (failed(region)) {
    status = failure();
    return;
  }
  math.loop(panelBegin, panelEnd, 1, [&](Value number) {
    math.loop(stripBegin, stripEnd, 1,
              [&](Value strip) { emitPanel(number, strip, *region); });
  });
}

void ConvEmitter::emitPanel(Value number, Value strip, Value region) {
  BlockRows stripRows(math, rowSplit, strip);
  Value row = stripRows.first();
  Value localRow = math.sub(row, firstRow);
  panel.offset = math.mul(number, g.depth() * columns);
  auto blocks = [&](int64_t used) {
    math.loop(columnSplit.blocks, [&](Value block) {
      BlockRows blockColumns(math, columnSplit, block);
      Value column = blockColumns.first();
      // Strips and column blocks come in two sizes, but never both at once.
      bool splitsColumns = columnSplit.larger > 0;
      const BlockRows &sized = splitsColumns ? blockColumns : stripRows;
      int64_t vectors = tailVectors(panel, used, lanes);
      Value group = math.div(number, panelsOfGroup);
      Value base = math.add(
          region, math.mul(localRow, g.stride[1] * reader->region().rowStride));
      base = math.add(
          base, math.mul(column, g.stride[2] * reader->region().pixelStride));
      base = math.add(base, math.mul(group, g.groupChannels()));
      sized.with([&](int64_t size) {
        emitSums(splitsColumns ? rowSplit.rows : size,
                 splitsColumns ? size : columnSplit.rows, vectors, base);
      });
      Value count = sized.choose(rowSplit.largest() * columnSplit.largest(),
                                 rowSplit.rows * columnSplit.rows);
      Value channel =
          math.add(math.mul(group, g.groupOutputs()),
                   math.mul(math.rem(number, panelsOfGroup), columns));
      auto indices = [&](Value pixel) {
        Value h = math.constant(0), w = pixel;
        if (rowSplit.largest() > 1) {
          h = math.div(pixel, g.out[2]);
          w = math.rem(pixel, g.out[2]);
        }
        return g.indices(image, {plane, math.add(row, h), math.add(column, w)},
                         Value());
      };
      if (failed(context.storeTile(b, tile, columns, count, indices,
                                   g.channelDim(), channel, used)))
        status = failure();
    });
  };
  withPanelColumns(math, math.rem(number, panelsOfGroup), panelsOfGroup,
                   columns, g.groupOutputs(), blocks);
}

void ConvEmitter::emitSums(int64_t height, int64_t width, int64_t vectors,
                           Value base) {
  const InputRegion &region = reader->region();
  SumBlock block;
  block.type = sumType;
  block.lanes = lanes;
  block.vectors = vectors;
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      block.rowOffsets.push_back(i * g.stride[1] * region.rowStride +
                                 j * g.stride[2] * region.pixelStride);
  SmallVector<KLoop> loops{{g.window[0], region.planeStride},
                           {g.window[1], g.dilation[1] * region.rowStride}};
  if (g.dilation[2] == 1 && g.groups == 1) {
    loops.push_back({g.window[2] * g.channels, 1});
  } else {
    loops.push_back({g.window[2], g.dilation[2] * region.pixelStride});
    loops.push_back({g.groupChannels(), 1});
  }
  SmallVector<Value> sums =
      emitMicroKernel(b, op.getLoc(), block, region.memory, base, panel, loops);
  storeSums(b, op.getLoc(), block, sums, tile, columns);
}

FailureOr<EmittedKernel> mpc::emitConvolution(func::FuncOp kernel,
                                              func::FuncOp impl,
                                              const CpuTarget &target) {
  ConvOp anchor;
  kernel.walk([&](ConvOp op) { anchor = op; });
  FailureOr<ConvolutionGeometry> geometry = ConvolutionGeometry::get(anchor);
  if (failed(geometry))
    return failure();
  if (elementCount(anchor.getResult()) == 0)
    return EmittedKernel{0, 1, 0};
  bool pointwise = geometry->windowSize() == 1 && geometry->groups == 1 &&
                   geometry->channelsLast && geometry->needsNoPadding() &&
                   geometry->stride == Spatial{1, 1, 1} &&
                   anchor.getPackedAttr();
  if (pointwise)
    return emitMatrixProduct(kernel, impl,
                             {anchor, anchor.getInput(), anchor.getFilter(),
                              false, false, anchor.getPackedAttr()},
                             target);
  if (geometry->groups > 1 && geometry->groupChannels() == 1 &&
      geometry->groupOutputs() == 1)
    return emitDepthwise(kernel, impl, anchor, *geometry, target);
  return ConvEmitter(kernel, impl, anchor, target, *geometry).run();
}
