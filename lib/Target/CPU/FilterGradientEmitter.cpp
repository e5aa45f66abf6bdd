//===- FilterGradientEmitter.cpp - conv_filter_gradient kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GEMM that contracts all output positions: rows are the filter's positions
// and channels, as far as those are contiguous in the input's region, columns
// are output channels. The accumulators of a filter block stay in scratch
// memory while one image after another is added. A work item is a group of rows
// times a group of panels, over the whole batch.
//
//===----------------------------------------------------------------------===//

#include "InputRegionReader.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class FilterGradientEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  /// Panels and row blocks of an item, and its first row of the filter.
  struct Part {
    Range panels, blocks;
    Value firstRow;
  };
  void addChunk(const Part &part, Value image, Value plane, Value chunk);
  void packPositions(Value number, Value image, Value plane, Value row,
                     Value offset);
  void addUnit(Value number, Value block, Value place, Value region,
               Value sums);
  void storeUnit(Value number, Value block, Value place, Value sums);
  bool storesLines() const;
  void storeLines(const Part &part, Value number, Value sums, int64_t used);

  void forUnits(const Part &part,
                llvm::function_ref<void(Value number, Value local, Value block,
                                        Value place, Value sums)>
                    body);
  const ConvolutionGeometry &g = contraction.geometry;
  bool inPlace = !blocks.packsRight();
  int64_t vectors = contraction.vectors(columns);
  FilterBlocks cut{g, blocks.getRows(), contraction.isPlanar()};
  /// Output rows of one image per chunk, or images per chunk.
  int64_t chunkRows =
      std::min(blocks.getChunk() / g.out[2], std::max<int64_t>(g.out[1], 1));
  int64_t chunkImages = blocks.getChunk() / (g.out[2] * chunkRows);
  int64_t blocksPerItem = perItem(blocks.getBlocksPerItem(), cut.split.blocks);
  int64_t blockGroups = llvm::divideCeil(cut.split.blocks, blocksPerItem);
  FilterRegion held{g, cut, blocksPerItem,
                    bytesPerElement(contraction.wordType())};
  int64_t imageElements = chunkRows * contraction.steps(g.out[2]) * columns;
  int64_t panelElements = chunkImages * imageElements;
  /// Rows of accumulators per window position, and per panel.
  int64_t placeRows = blocksPerItem * cut.split.largest();
  int64_t panelRows = cut.places * placeRows;
  std::optional<InputRegionReader> reader;
};
} // namespace

void FilterGradientEmitter::prepare() {
  items = panelGroups * blockGroups;
  cyclesPerItem = cyclesOf(2.0 * g.batch * g.out[0] * g.out[1] * g.out[2] *
                           panels * columns * g.depth());
  if (inPlace) {
    panel.pitch = g.outputs;
    if (getElementTypeOrSelf(contraction.rhs().getType()) != sumType)
      panel.form = PanelForm::Widened;
    panel.memory = math.flatten(memoryOf(contraction.rhs()));
  } else {
    terms.panelPlane = panelsPerItem * panelElements;
    panel.memory = area(terms.count * terms.panelPlane, contraction.wordType());
  }
  // Distance of a pair of adjacent elements in a row of the gradient.
  bool isPlanar = contraction.isPlanar();
  int64_t distance = contraction.isPaired() && !isPlanar ? g.stride[2] : 0;
  reader.emplace(
      *this, chunkRows,
      InputRegionReader::Pixels{held.channels, held.pitch, distance, isPlanar},
      chunkImages);
  prepareSums(cut.split.largest() * columns,
              panelsPerItem * cut.places * blocksPerItem);
}

void FilterGradientEmitter::forUnits(
    const Part &part,
    llvm::function_ref<void(Value, Value, Value, Value, Value)> body) {
  math.loop(part.panels.begin, part.panels.end, 1, [&](Value number) {
    Value local = math.sub(number, part.panels.begin);
    math.loop(part.blocks.begin, part.blocks.end, 1, [&](Value block) {
      math.loop(cut.places, [&](Value place) {
        BlockRows rows(math, cut.split, block);
        Value row = math.sub(rows.first(), part.firstRow);
        row = math.add(row, math.mul(place, placeRows));
        row = math.add(row, math.mul(local, panelRows));
        body(number, local, block, place, math.mul(row, columns));
      });
    });
  });
}

void FilterGradientEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {panelGroups, blockGroups});
  Part part{groupOf(position[0], panelsPerItem, panels),
            groupOf(position[1], blocksPerItem, cut.split.blocks),
            {}};
  part.firstRow = BlockRows(math, cut.split, part.blocks.begin).first();
  clearSums();
  math.loop(g.batch / chunkImages, [&](Value images) {
    math.loop(g.out[0], [&](Value plane) {
      math.loop(g.out[1] / chunkRows, [&](Value chunk) {
        addChunk(part, math.mul(images, chunkImages), plane, chunk);
      });
    });
  });
  if (!storesLines()) {
    forUnits(part, [&](Value number, Value, Value block, Value place,
                       Value sums) { storeUnit(number, block, place, sums); });
    return;
  }
  math.loop(part.panels.begin, part.panels.end, 1, [&](Value number) {
    Value local = math.sub(number, part.panels.begin);
    withColumns(number, [&](int64_t used) {
      storeLines(part, number, math.mul(local, panelRows * columns), used);
    });
  });
}

void FilterGradientEmitter::addChunk(const Part &part, Value image, Value plane,
                                     Value chunk) {
  Value row = math.mul(chunk, chunkRows);
  Value channel = math.constant(0), region;
  if (held.channels < g.channels)
    channel = math.min(part.firstRow, g.channels - held.channels);
  if (blocks.packsLeft() && chunkImages > 1) {
    math.loop(chunkImages, [&](Value i) {
      reader->read(math.add(image, i), plane, row, channel, i);
    });
    region =
        math.sub(math.constant(0), math.mul(channel, reader->channelStride));
  } else {
    region = reader->read(image, plane, row, channel);
  }
  if (!inPlace)
    math.loop(part.panels.begin, part.panels.end, 1, [&](Value number) {
      Value offset =
          math.mul(math.sub(number, part.panels.begin), panelElements);
      math.loop(chunkImages, [&](Value i) {
        Value to = math.add(offset, math.mul(i, imageElements));
        forTerms(terms.panelPlane, [&](Value ofTerm) {
          packPositions(number, math.add(image, i), plane, row,
                        math.add(to, ofTerm));
        });
      });
    });
  forUnits(part, [&](Value number, Value local, Value block, Value place,
                     Value sums) {
    if (inPlace) {
      Value line = math.add(math.mul(image, g.out[0]), plane);
      line = math.add(math.mul(line, g.out[1]), row);
      panel.offset =
          math.add(math.mul(line, g.out[2] * g.outputs), firstColumn(number));
    } else {
      panel.offset = math.mul(local, panelElements);
    }
    addUnit(number, block, place, region, sums);
  });
}

/// Copies the columns of panel `number` at the positions of a chunk to
/// `panel.memory[offset]`.
void FilterGradientEmitter::packPositions(Value number, Value image,
                                          Value plane, Value row,
                                          Value offset) {
  Value first = firstColumn(number);
  auto copy = [&](int64_t used) {
    math.loop(chunkRows, [&](Value r) {
      forSteps(g.out[2], [&](Value step, Value w, int64_t count) {
        Value place = math.add(math.mul(r, contraction.steps(g.out[2])), step);
        Value target = math.add(offset, math.mul(place, columns));
        // Move contiguous channels at once.
        int64_t widest = g.channelsLast ? 2 * lanes : 1;
        forPowers(used, widest, [&](int64_t lane, int64_t run) {
          auto pixel = [&](Value column) {
            return load(contraction.rhs(),
                        g.indices(image, {plane, math.add(row, r), column},
                                  math.add(first, lane)),
                        run);
          };
          store(wordsOf(w, count, pixel), panel.memory, math.add(target, lane));
        });
        clear(panel.memory, target, used, columns, lanes);
      });
    });
  };
  withColumns(number, copy);
}

void FilterGradientEmitter::addUnit(Value number, Value block, Value place,
                                    Value region, Value sums) {
  SmallVector<Value> window = math.delinearize(place, cut.outer);
  BlockRows rowsOfBlock(math, cut.split, block);
  Value base = math.add(region, math.mul(window[0], reader->planeStride));
  base = math.add(base, math.mul(window[1], g.dilation[1] * reader->rowStride));
  base =
      math.add(base, math.mul(window[2], g.dilation[2] * reader->pixelStride));
  Value channel = math.mul(groupOfPanel(number), g.groupChannels());
  channel = math.add(channel, rowsOfBlock.first());
  base = math.add(base, math.mul(channel, reader->channelStride));
  rowsOfBlock.with([&](int64_t rows) {
    SmallVector<int64_t> offsets;
    for (int64_t r = 0; r < rows; ++r)
      offsets.push_back(cut.stacked
                            ? r / cut.line * g.dilation[1] * reader->rowStride +
                                  r % cut.line
                            : r * reader->channelStride);
    int64_t depth = contraction.depthOfStep();
    KLoop loops[] = {{chunkImages, reader->imageStride},
                     {chunkRows, g.stride[1] * reader->rowStride},
                     {contraction.steps(g.out[2]),
                      depth * g.stride[2] * reader->pixelStride,
                      g.out[2] % depth > 0}};
    multiply(offsets, vectors, reader->memory, base, loops, sums);
  });
}

void FilterGradientEmitter::storeUnit(Value number, Value block, Value place,
                                      Value sums) {
  BlockRows rows(math, cut.split, block);
  SmallVector<Value> outer = math.delinearize(place, cut.outer);
  auto indices = [&](Value r) {
    SmallVector<Value> window = outer;
    Value position = math.add(rows.first(), r);
    if (cut.stacked) {
      window[1] = math.div(position, cut.line);
      position = math.rem(position, cut.line);
    }
    if (cut.joined) {
      window[2] = math.div(position, g.channels);
      position = math.rem(position, g.channels);
    }
    SmallVector<Value> at = {position};
    llvm::append_range(at, ArrayRef<Value>(window).take_back(g.spatialRank));
    return at;
  };
  withColumns(number, [&](int64_t used) {
    storeSums(sums, rows.count(), indices,
              /*columnDim=*/0, firstColumn(number), used);
  });
}

/// Returns true if, for each column, the item's part of the filter is
/// contiguous, at least a vector long, and stored unchanged.
bool FilterGradientEmitter::storesLines() const {
  bool hasAll = !cut.joined || blockGroups == 1;
  int64_t fewestBlocks = cut.split.blocks - (blockGroups - 1) * blocksPerItem;
  return hasAll && plainResult() && contraction.width() % lanes == 0 &&
         fewestBlocks * cut.split.rows * cut.places >= lanes;
}

/// Stores the accumulators of a panel. In a column's filter, channels are
/// outermost, then window positions, both rows of the tiles: square blocks are
/// transposed in registers, so that memory is written in order.
void FilterGradientEmitter::storeLines(const Part &part, Value number,
                                       Value sums, int64_t used) {
  int64_t window = g.windowSize(), perPlace = window / cut.places;
  BlockRows lastBlock(math, cut.split,
                      math.sub(part.blocks.end, math.constant(1)));
  Value last = math.add(lastBlock.first(), lastBlock.count());
  // Rows of the tiles are channels at one position, or channels at several.
  Value channels =
      cut.joined ? math.constant(g.channels) : math.sub(last, part.firstRow);
  Value first = cut.joined ? math.constant(0) : part.firstRow;
  Value total = math.mul(channels, window);
  Value filter = math.flatten(plainResult());
  Value square = math.constant(lanes);
  math.loop(math.constant(0), total, lanes, [&](Value next) {
    Value from = math.min(next, math.sub(total, square));
    SmallVector<Value> rows;
    for (int64_t i = 0; i < lanes; ++i) {
      Value at = math.add(from, i), place = math.rem(at, window);
      Value row = math.mul(math.div(place, perPlace), placeRows);
      row = math.add(row, math.mul(math.rem(place, perPlace), g.channels));
      row = math.add(row, math.div(at, window));
      rows.push_back(math.add(sums, math.mul(row, columns)));
    }
    Value target =
        math.add(math.mul(firstColumn(number), g.groupChannels() * window),
                 math.add(math.mul(first, window), from));
    math.loop(used / lanes, [&](Value group) {
      Value column = math.mul(group, lanes);
      SmallVector<Value> lines;
      for (Value row : rows)
        lines.push_back(loadSums(math.add(row, column)));
      for (auto [i, line] : llvm::enumerate(transposed(lines))) {
        Value at = math.mul(math.add(column, i), g.groupChannels() * window);
        math.store(line, filter, math.add(target, at));
      }
    });
  });
}

FailureOr<int64_t> cpu::emitFilterGradient(const ContractionKernel &kernel) {
  return FilterGradientEmitter(kernel).run();
}
