//===- FilterGradientEmitter.cpp - conv_filter_gradient kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix product over all output positions: rows are the filter's positions
// and channels, as far as those lie side by side in the input's region, columns
// are output channels. The sums of a block of the filter stay in scratch memory
// while one image after the other adds to them. One work item is a group of
// rows times a group of panels, over the whole batch.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"
#include "ConvolutionGeometry.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// What a chunk of positions may take in the second-level cache: the input's
/// region, the gradient's panels, and the sums.
static constexpr int64_t kRegionBytes = 256 << 10;
static constexpr int64_t kPanelBytes = 256 << 10;
static constexpr int64_t kSumBytes = 512 << 10;
static constexpr int64_t kWantedItems = 4;
/// Fewer rows than this do not pay for reading region and panels.
static constexpr int64_t kFewestRows = 48;

namespace {
class FilterGradientEmitter {
public:
  FilterGradientEmitter(func::FuncOp kernel, func::FuncOp impl,
                        ConvFilterGradientOp op, const CpuTarget &target,
                        const ConvolutionGeometry &geometry)
      : context(kernel, impl, op, target), op(op), target(target), g(geometry),
        b(impl.getBody().front().getTerminator()), math{b, op.getLoc()} {}

  FailureOr<EmittedKernel> run() {
    if (failed(context.checkResults()))
      return failure();
    analyze();
    chooseItems();
    emit();
    if (failed(status))
      return failure();
    EmittedKernel result;
    result.items = panelGroups * unitGroups;
    result.scratchBytes = scratchBytes;
    double flops = 2.0 * g.batch * g.out[0] * g.out[1] * g.out[2] * panels *
                   columns * g.depth();
    result.grain = grainOf(flops / (4.0 * lanes) / result.items);
    return result;
  }

private:
  void analyze();
  void chooseItems();
  void emit();
  void emitItem(Value item);
  void clearSums();
  void packPanel(Value number, Value image, Value plane, Value row,
                 Value offset);
  void addUnit(Value number, Value unit, Value region, Value sums);
  void addSums(int64_t rows, Value base, Value sums);
  void storeUnit(Value number, Value unit, Value sums);

  /// A unit's place in the window, and its block's rows in the line.
  struct UnitPlace {
    SmallVector<Value> window;
    BlockRows rows;
  };
  UnitPlace placeOf(Value unit);
  /// The first output channel of a panel.
  Value firstChannel(Value number) {
    return math.add(math.mul(math.div(number, panelsOfGroup), g.groupOutputs()),
                    math.mul(math.rem(number, panelsOfGroup), columns));
  }
  int64_t unitElements() const { return split.largest() * columns; }
  /// Where the sums of a panel (counted from the item's first) and unit stand.
  Value sumsOffset(Value panel, Value unit) {
    Value place = math.add(math.mul(panel, unitsPerItem), unit);
    return math.mul(place, unitElements());
  }

  ContractionKernel context;
  ConvFilterGradientOp op;
  CpuTarget target;
  const ConvolutionGeometry &g;
  OpBuilder b;
  IndexMath math;
  LogicalResult status = success();

  Type sumType;
  int64_t lanes = 0, columns = 0, vectors = 0, panelsOfGroup = 0, panels = 0;
  Panel panel; // offset is set per panel
  /// Whether the gradient is read where it lies.
  bool inPlace = false;

  /// Rows side by side in the region: the channels of a group, of all pixels of
  /// a window's row where those touch (`joined`). `stacked` puts all rows of
  /// the window into one block.
  bool joined = false, stacked = false;
  int64_t line = 0;
  RowSplit split{1, 1};
  Spatial outer{1, 1, 1}; // window positions that units run over
  int64_t units = 0;

  int64_t chunkRows = 1;
  int64_t panelsPerItem = 1, panelGroups = 1, unitsPerItem = 1, unitGroups = 1;
  int64_t scratchBytes = 0, sumsOffsetBytes = 0;
  std::optional<RegionReader> reader;
  Value sumsMemory;
};
} // namespace

void FilterGradientEmitter::analyze() {
  sumType = sumTypeOf(op);
  lanes = vectorLanes(sumType, target);
  columns =
      std::min<int64_t>(target.blockColumns(),
                        llvm::PowerOf2Ceil(std::max(g.groupOutputs(), lanes)));
  panelsOfGroup = llvm::divideCeil(g.groupOutputs(), columns);
  panels = g.groups * panelsOfGroup;
  panel.columns = columns;
  vectors = panelsOfGroup == 1 ? tailVectors(panel, g.groupOutputs(), lanes)
                               : columns / lanes;
  // Whole vectors of channels, as many in every panel, are read in place.
  Value gradient = op.getGradient();
  Type element = getElementTypeOrSelf(gradient.getType());
  bool isWidened = isa<Float16Type, BFloat16Type>(element) && sumType.isF32();
  inPlace = g.channelsLast &&
            g.groupOutputs() % (panelsOfGroup == 1 ? lanes : columns) == 0 &&
            context.memoryOf(gradient) && (element == sumType || isWidened);
  if (inPlace) {
    panel.pitch = g.outputs;
    panel.form = isWidened ? PanelForm::Widened : PanelForm::Plain;
  }

  int64_t most = maxBlockRows(vectors, target);
  joined = g.dilation[2] == 1 && g.groups == 1;
  line = joined ? g.window[2] * g.channels : g.groupChannels();
  outer = g.window;
  if (joined)
    outer[2] = 1;
  stacked = joined && g.window[1] * line <= most;
  if (stacked)
    outer[1] = 1;
  split = RowSplit(stacked ? g.window[1] * line : line, most);
  units = outer[0] * outer[1] * outer[2] * split.blocks;
}

void FilterGradientEmitter::chooseItems() {
  panelsPerItem = panels;
  unitsPerItem = units;
  auto items = [&] {
    return llvm::divideCeil(panels, panelsPerItem) *
           llvm::divideCeil(units, unitsPerItem);
  };
  auto sumBytes = [&] {
    return panelsPerItem * unitsPerItem * unitElements() *
           bytesPerElement(sumType);
  };
  while ((items() < kWantedItems || sumBytes() > kSumBytes) &&
         panelsPerItem > 1)
    panelsPerItem = llvm::divideCeil(panelsPerItem, 2);
  while ((items() < kWantedItems &&
          unitsPerItem * split.rows >= 2 * kFewestRows) ||
         (sumBytes() > kSumBytes && unitsPerItem > 1))
    unitsPerItem = llvm::divideCeil(unitsPerItem, 2);
  panelGroups = llvm::divideCeil(panels, panelsPerItem);
  unitGroups = llvm::divideCeil(units, unitsPerItem);

  // A chunk is some rows of one image, all chunks alike.
  auto fits = [&](int64_t rows) {
    int64_t bytes = bytesPerElement(sumType);
    int64_t region = g.window[0] * g.reach(1, rows) * g.reach(2, g.out[2]) *
                     g.channels * bytes;
    int64_t taken = panelsPerItem * rows * g.out[2] * columns * bytes;
    return region <= kRegionBytes && taken <= kPanelBytes;
  };
  for (int64_t rows = 1; rows <= g.out[1]; ++rows)
    if (g.out[1] % rows == 0 && fits(rows))
      chunkRows = rows;
  reader.emplace(context, g, op.getInput(), sumType, chunkRows);
}

void FilterGradientEmitter::emit() {
  const ImplArguments &arguments = context.arguments;
  int64_t bytes = bytesPerElement(sumType);
  int64_t panelElements = panelsPerItem * chunkRows * g.out[2] * columns;
  int64_t panelBytes = inPlace ? 0 : llvm::alignTo(panelElements * bytes, 64);
  sumsOffsetBytes = panelBytes + reader->scratchBytes();
  int64_t sumElements = panelsPerItem * unitsPerItem * unitElements();
  scratchBytes = sumsOffsetBytes + sumElements * bytes;
  panel.memory = inPlace
                     ? math.flatten(context.memoryOf(op.getGradient()))
                     : math.view(arguments.scratch, 0, panelElements, sumType);
  reader->prepare(b, panelBytes);
  sumsMemory =
      math.view(arguments.scratch, sumsOffsetBytes, sumElements, sumType);
  math.loop(arguments.begin, arguments.end, 1,
            [&](Value item) { emitItem(item); });
}

void FilterGradientEmitter::clearSums() {
  auto type = VectorType::get({lanes}, sumType);
  Value zero =
      arith::ConstantOp::create(b, op.getLoc(), type, b.getZeroAttr(type));
  int64_t count = panelsPerItem * unitsPerItem * unitElements();
  math.loop(math.constant(0), math.constant(count), lanes, [&](Value at) {
    vector::StoreOp::create(b, op.getLoc(), zero, sumsMemory, at);
  });
}

void FilterGradientEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {panelGroups, unitGroups});
  Value panelBegin = math.mul(position[0], panelsPerItem);
  Value panelEnd = math.min(math.add(panelBegin, panelsPerItem), panels);
  Value unitBegin = math.mul(position[1], unitsPerItem);
  Value unitEnd = math.min(math.add(unitBegin, unitsPerItem), units);
  auto forAll = [&](llvm::function_ref<void(Value, Value, Value, Value)> body) {
    math.loop(panelBegin, panelEnd, 1, [&](Value number) {
      Value local = math.sub(number, panelBegin);
      math.loop(unitBegin, unitEnd, 1, [&](Value unit) {
        body(number, local, unit, sumsOffset(local, math.sub(unit, unitBegin)));
      });
    });
  };

  clearSums();
  math.loop(g.batch, [&](Value image) {
    math.loop(g.out[0], [&](Value plane) {
      math.loop(g.out[1] / chunkRows, [&](Value chunk) {
        Value row = math.mul(chunk, chunkRows);
        FailureOr<Value> region = reader->read(b, image, plane, row);
        if (failed(region)) {
          status = failure();
          return;
        }
        int64_t panelElements = chunkRows * g.out[2] * columns;
        if (!inPlace)
          math.loop(panelBegin, panelEnd, 1, [&](Value number) {
            packPanel(number, image, plane, row,
                      math.mul(math.sub(number, panelBegin), panelElements));
          });
        forAll([&](Value number, Value local, Value unit, Value sums) {
          if (inPlace) {
            Value line = math.add(math.mul(image, g.out[0]), plane);
            line = math.add(math.mul(line, g.out[1]), row);
            panel.offset = math.add(math.mul(line, g.out[2] * g.outputs),
                                    firstChannel(number));
          } else {
            panel.offset = math.mul(local, panelElements);
          }
          addUnit(number, unit, *region, sums);
        });
      });
    });
  });
  forAll([&](Value number, Value, Value unit, Value sums) {
    storeUnit(number, unit, sums);
  });
}

/// Copies the columns of panel `number` at the positions of a chunk to
/// `panel.memory[offset]`.
void FilterGradientEmitter::packPanel(Value number, Value image, Value plane,
                                      Value row, Value offset) {
  Value group = math.div(number, panelsOfGroup),
        local = math.rem(number, panelsOfGroup);
  Value first =
      math.add(math.mul(group, g.groupOutputs()), math.mul(local, columns));
  auto store = [&](Value value, Value at) {
    if (isa<VectorType>(value.getType()))
      vector::StoreOp::create(b, op.getLoc(), value, panel.memory, at);
    else
      memref::StoreOp::create(b, op.getLoc(), value, panel.memory, at);
  };
  auto copy = [&](int64_t used) {
    math.loop(chunkRows, [&](Value r) {
      math.loop(g.out[2], [&](Value w) {
        Value place = math.add(math.mul(r, g.out[2]), w);
        Value target = math.add(offset, math.mul(place, columns));
        auto at = [&](int64_t lane, int64_t count) {
          ElementEmitter emitter = context.makeEmitter(b);
          FailureOr<Value> value =
              emitter.emit(op.getGradient(),
                           g.indices(image, {plane, math.add(row, r), w},
                                     math.add(first, lane)),
                           count);
          if (failed(value))
            status = failure();
          else
            store(context.toSumType(b, *value, sumType),
                  math.add(target, lane));
        };
        // Channels that lie side by side are moved at once.
        int64_t widest = g.channelsLast ? 2 * lanes : 1;
        for (const Chunk &chunk :
             chunksOf(used, widest, CpuTarget{CpuIsa::Avx2}))
          at(chunk.offset, chunk.lanes);
        for (const Chunk &chunk :
             chunksOf(columns - used, lanes, CpuTarget{CpuIsa::Avx2})) {
          Type type = lanesOf(sumType, chunk.lanes);
          store(arith::ConstantOp::create(b, op.getLoc(), b.getZeroAttr(type)),
                math.add(target, used + chunk.offset));
        }
      });
    });
  };
  withPanelColumns(math, local, panelsOfGroup, columns, g.groupOutputs(), copy);
}

FilterGradientEmitter::UnitPlace FilterGradientEmitter::placeOf(Value unit) {
  SmallVector<Value> window =
      math.delinearize(unit, {outer[0], outer[1], outer[2], split.blocks});
  Value block = window.pop_back_val();
  return {std::move(window), BlockRows(math, split, block)};
}

void FilterGradientEmitter::addUnit(Value number, Value unit, Value region,
                                    Value sums) {
  const InputRegion &layout = reader->region();
  UnitPlace place = placeOf(unit);
  Value base = math.add(region, math.mul(place.window[0], layout.planeStride));
  base = math.add(base,
                  math.mul(place.window[1], g.dilation[1] * layout.rowStride));
  base = math.add(
      base, math.mul(place.window[2], g.dilation[2] * layout.pixelStride));
  base = math.add(base, place.rows.first());
  base = math.add(base,
                  math.mul(math.div(number, panelsOfGroup), g.groupChannels()));
  place.rows.with([&](int64_t rows) { addSums(rows, base, sums); });
}

void FilterGradientEmitter::addSums(int64_t rows, Value base, Value sums) {
  const InputRegion &layout = reader->region();
  SumBlock block;
  block.type = sumType;
  block.lanes = lanes;
  block.vectors = vectors;
  for (int64_t r = 0; r < rows; ++r)
    block.rowOffsets.push_back(
        stacked ? r / line * g.dilation[1] * layout.rowStride + r % line : r);
  KLoop loops[] = {{chunkRows, g.stride[1] * layout.rowStride},
                   {g.out[2], g.stride[2] * layout.pixelStride}};
  SmallVector<Value> products =
      emitMicroKernel(b, op.getLoc(), block, layout.memory, base, panel, loops);
  addToSums(b, op.getLoc(), block, products, sumsMemory, columns, sums);
}

void FilterGradientEmitter::storeUnit(Value number, Value unit, Value sums) {
  UnitPlace place = placeOf(unit);
  Value rowCount = place.rows.count();
  Value local = math.rem(number, panelsOfGroup), channel = firstChannel(number);
  Value start =
      math.add(math.mul(sums, bytesPerElement(sumType)), sumsOffsetBytes);
  Value tile = memref::ViewOp::create(
      b, op.getLoc(), MemRefType::get({unitElements()}, sumType),
      context.arguments.scratch, start, ValueRange{});
  auto indices = [&](Value r) {
    SmallVector<Value> window = place.window;
    Value position = math.add(place.rows.first(), r);
    if (stacked) {
      window[1] = math.div(position, line);
      position = math.rem(position, line);
    }
    if (joined) {
      window[2] = math.div(position, g.channels);
      position = math.rem(position, g.channels);
    }
    SmallVector<Value> at = {position};
    llvm::append_range(at, ArrayRef<Value>(window).take_back(g.spatialRank));
    return at;
  };
  auto store = [&](int64_t used) {
    if (failed(context.storeTile(b, tile, columns, rowCount, indices,
                                 /*columnDim=*/0, channel, used)))
      status = failure();
  };
  withPanelColumns(math, local, panelsOfGroup, columns, g.groupOutputs(),
                   store);
}

FailureOr<EmittedKernel> mpc::emitFilterGradient(func::FuncOp kernel,
                                                 func::FuncOp impl,
                                                 const CpuTarget &target) {
  ConvFilterGradientOp anchor;
  kernel.walk([&](ConvFilterGradientOp op) { anchor = op; });
  FailureOr<ConvolutionGeometry> geometry = ConvolutionGeometry::get(anchor);
  if (failed(geometry))
    return failure();
  if (elementCount(anchor.getResult()) == 0)
    return EmittedKernel{0, 1, 0};
  return FilterGradientEmitter(kernel, impl, anchor, target, *geometry).run();
}
