//===- ConvolutionEmitter.cpp - implicit-GEMM convolution -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Direct convolution as an implicit GEMM: a block of output pixels times a
// panel of output channels, with K iterating over the window and the channels
// of a padded region. A work item is a strip of output rows of one image times
// a group of panels.
//
//===----------------------------------------------------------------------===//

#include "InputRegionReader.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class ConvEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  void packFilter();
  void packTerms();
  void pairPositions(Value ordered, Value offset);
  void emitPanel(Value number, Value strip, Value region);
  void emitSums(int64_t height, int64_t width, int64_t vectors, Value base);
  void skipPadding(KLoop &lines, Value row);

  const ConvolutionGeometry &g = contraction.geometry;
  PixelBlocks split{g, blocks.getRows()};
  int64_t stripsPerItem =
      perItem(blocks.getBlocksPerItem(), split.lines.blocks);
  int64_t stripGroups = llvm::divideCeil(split.lines.blocks, stripsPerItem);
  int64_t panelElements = contraction.windowSteps() * columns;
  std::optional<InputRegionReader> reader;

  Value image, plane, firstRow;
  /// The window's rows, among those that the strip reads.
  KLoop windowLines;
};
} // namespace

void ConvEmitter::prepare() {
  items = g.batch * g.out[0] * stripGroups * panelGroups;
  cyclesPerItem = cyclesOf(2.0 * g.batch * g.out[0] * g.out[1] * g.out[2] *
                           panels * columns * g.depth());
  terms.panelPlane = panels * panelElements;
  preparePanels();
  reader.emplace(*this, stripsPerItem * split.lines.largest());
  prepareSums(split.lines.largest() * split.columns.largest() * columns, 1);
  if (blocks.packsRight())
    contraction.packed ? packTerms() : packFilter();
}

/// Packs the bf16 terms of a packed constant, run by run of a window.
void ConvEmitter::packTerms() {
  // Positions of a stored run.
  int64_t depth = contraction.packed.getDepth();
  int64_t positions = depth * llvm::divideCeil(g.run(), depth);
  math.loop(panels, [&](Value number) {
    forTerms(terms.panelPlane, [&](Value plane) {
      math.loop(contraction.windowRuns(), [&](Value run) {
        Value to = math.mul(run, contraction.steps(g.run()) * columns);
        to = math.add(to, math.mul(number, panelElements));
        packStoredPanel(number, math.mul(run, positions), g.run(),
                        math.add(plane, to));
      });
    });
  });
}

/// Packs a filter that is no packed constant, once per call. Contiguous in
/// memory are the window positions of one channel; in a panel, the channels of
/// one window position.
void ConvEmitter::packFilter() {
  Value filter = contraction.rhs();
  Value memory = memoryOf(filter);
  Type element = getElementTypeOrSelf(filter.getType());
  if (memory)
    memory = math.flatten(memory);
  // A panel in the order of positions, before they are combined into steps.
  Value ordered;
  if (contraction.isPaired())
    ordered = area(g.depth() * columns, sumType);
  math.loop(panels, [&](Value number) {
    Value first = math.mul(groupOfPanel(number), g.groupOutputs());
    Value local = math.mul(math.rem(number, panelsOfGroup), columns);
    auto elements = [&](Value column, Value at, int64_t lanes) {
      Value output = math.add(
          first, math.min(math.add(local, column), g.groupOutputs() - 1));
      if (memory)
        return toSumType(makeEmitter().load(
                             memory, element,
                             math.add(math.mul(output, g.depth()), at), lanes),
                         element);
      SmallVector<Value> indices{output, math.div(at, g.windowSize())};
      SmallVector<Value> window =
          math.delinearize(math.rem(at, g.windowSize()), g.window);
      llvm::append_range(indices,
                         ArrayRef<Value>(window).take_back(g.spatialRank));
      return loadWhole(filter, indices, lanes);
    };
    auto place = [&](Value at) {
      Value position =
          math.mul(math.rem(at, g.windowSize()), g.groupChannels());
      return math.add(position, math.div(at, g.windowSize()));
    };
    Value offset = math.mul(number, panelElements);
    packColumns(columns, g.depth(), /*depth=*/1,
                /*asVectors=*/memory != nullptr,
                contraction.isPaired() ? ordered : panel.memory,
                contraction.isPaired() ? math.constant(0) : offset, elements,
                place);
    if (contraction.isPaired())
      forTerms(terms.panelPlane, [&](Value plane) {
        pairPositions(ordered, math.add(offset, plane));
      });
  });
}

/// Combines the positions of each run of `ordered` into words of a panel.
void ConvEmitter::pairPositions(Value ordered, Value offset) {
  math.loop(contraction.windowRuns(), [&](Value run) {
    Value from = math.mul(run, g.run());
    Value to = math.mul(run, contraction.steps(g.run()));
    forSteps(g.run(), [&](Value step, Value k, int64_t count) {
      for (int64_t column = 0; column < columns; column += lanes) {
        auto line = [&](Value position) {
          Value at = math.mul(math.add(from, position), columns);
          return termOf(math.load(ordered, math.add(at, column), lanes));
        };
        Value at = math.mul(math.add(to, step), columns);
        store(wordsOf(k, count, line), panel.memory,
              math.add(math.add(offset, at), column));
      }
    });
  });
}

void ConvEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {g.batch, g.out[0], stripGroups, panelGroups});
  image = position[0];
  plane = position[1];
  Range strips = groupOf(position[2], stripsPerItem, split.lines.blocks);
  Range numbers = groupOf(position[3], panelsPerItem, panels);
  firstRow = BlockRows(math, split.lines, strips.begin).first();
  Value region = reader->read(image, plane, firstRow);
  math.loop(numbers.begin, numbers.end, 1, [&](Value number) {
    math.loop(strips.begin, strips.end, 1,
              [&](Value strip) { emitPanel(number, strip, region); });
  });
}

void ConvEmitter::emitPanel(Value number, Value strip, Value region) {
  BlockRows stripRows(math, split.lines, strip);
  Value row = stripRows.first();
  Value localRow = math.sub(row, firstRow);
  panel.number = number;
  windowLines = {g.window[1], g.dilation[1] * reader->rowStride};
  skipPadding(windowLines, row);
  panel.offset =
      math.mul(number, contraction.windowSteps() * panel.stepPitch());
  auto blocks = [&](int64_t used) {
    math.loop(split.columns.blocks, [&](Value block) {
      BlockRows blockColumns(math, split.columns, block);
      Value column = blockColumns.first();
      // Either strips or column blocks come in two sizes, but not both.
      bool splitsColumns = split.columns.larger > 0;
      const BlockRows &sized = splitsColumns ? blockColumns : stripRows;
      int64_t vectors = tailVectors(panel.form, columns, used, lanes);
      Value group = groupOfPanel(number);
      Value base =
          math.add(region, math.mul(localRow, g.stride[1] * reader->rowStride));
      base =
          math.add(base, math.mul(column, g.stride[2] * reader->pixelStride));
      base = math.add(base, math.mul(group, g.groupChannels()));
      Value count =
          sized.choose(split.lines.largest() * split.columns.largest(),
                       split.lines.rows * split.columns.rows);
      auto indices = [&](Value pixel) {
        Value h = math.constant(0), w = pixel;
        if (split.lines.largest() > 1) {
          h = math.div(pixel, g.out[2]);
          w = math.rem(pixel, g.out[2]);
        }
        return g.indices(image, {plane, math.add(row, h), math.add(column, w)},
                         Value());
      };
      prefetchResiduals(count, indices, firstColumn(number), used);
      sized.with([&](int64_t size) {
        emitSums(splitsColumns ? split.lines.rows : size,
                 splitsColumns ? size : split.columns.rows, vectors, base);
      });
      storeSums(math.constant(0), count, indices, g.channelDim(),
                firstColumn(number), used);
    });
  };
  withColumns(number, blocks);
}

/// Skips the window rows above or below the image for output row `row`.
void ConvEmitter::skipPadding(KLoop &lines, Value row) {
  bool isPadded = g.pad[1] > 0 || g.reach(1, g.out[1]) - g.pad[1] > g.in[1];
  // For several output rows together, some read what others would skip.
  // A canonical sum includes the padding, whatever the blocks.
  if (!isPadded || contraction.target.isReproducible || g.padValue ||
      g.window[1] == 1 || split.lines.largest() > 1)
    return;
  Value top = math.mul(row, g.stride[1]), none = math.constant(0);
  // Number of window rows before position `extent` of the padded image.
  auto before = [&](int64_t extent) {
    Value count = values.maximum(math.sub(math.constant(extent), top), none);
    count = math.div(math.add(count, g.dilation[1] - 1), g.dilation[1]);
    return math.min(count, g.window[1]);
  };
  lines.begin = before(g.pad[1]);
  lines.end = before(g.pad[1] + g.in[1]);
}

void ConvEmitter::emitSums(int64_t height, int64_t width, int64_t vectors,
                           Value base) {
  SmallVector<int64_t> offsets;
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      offsets.push_back(i * g.stride[1] * reader->rowStride +
                        j * g.stride[2] * reader->pixelStride);
  SmallVector<KLoop> loops{{g.window[0], reader->planeStride}, windowLines};
  if (g.run() == g.groupChannels())
    loops.push_back({g.window[2], g.dilation[2] * reader->pixelStride});
  loops.push_back(contraction.loopOver(g.run()));
  multiply(offsets, vectors, reader->memory, base, loops, math.constant(0));
}

FailureOr<int64_t> cpu::emitConvolution(const ContractionKernel &kernel) {
  return ConvEmitter(kernel).run();
}
