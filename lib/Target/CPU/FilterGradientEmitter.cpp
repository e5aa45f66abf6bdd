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

#include "RegionReader.h"

using namespace mlir;
using namespace mpc;

namespace {
class FilterGradientEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  void packPositions(Value number, Value image, Value plane, Value row,
                     Value offset);
  void addUnit(Value number, Value unit, Value region, Value sums);
  void storeUnit(Value number, Value unit, Value sums);

  /// A unit's place in the window, and its block's rows in the line.
  struct UnitPlace {
    SmallVector<Value> window;
    BlockRows rows;
  };
  UnitPlace placeOf(Value unit);
  const ConvolutionGeometry &g = contraction.geometry;
  bool inPlace = !blocks.packsRight();
  int64_t vectors = contraction.vectors(columns);
  FilterBlocks cut{g, blocks.getRows()};
  /// Lines of the output in a chunk.
  int64_t chunkRows = blocks.getChunk() / g.out[2];
  int64_t unitsPerItem = perItem(blocks.getBlocksPerItem(), cut.units);
  int64_t unitGroups = llvm::divideCeil(cut.units, unitsPerItem);
  int64_t panelElements = chunkRows * contraction.steps(g.out[2]) * columns;
  std::optional<RegionReader> reader;
};
} // namespace

void FilterGradientEmitter::prepare() {
  items = panelGroups * unitGroups;
  cyclesPerItem = cyclesOf(2.0 * g.batch * g.out[0] * g.out[1] * g.out[2] *
                           panels * columns * g.depth());
  if (inPlace) {
    panel.pitch = g.outputs;
    if (getElementTypeOrSelf(contraction.rhs().getType()) != sumType)
      panel.form = PanelForm::Widened;
    panel.memory = math.flatten(memoryOf(contraction.rhs()));
  } else {
    panel.memory = area(panelsPerItem * panelElements, contraction.wordType());
  }
  // Of a pair of neighbours in a line of the gradient.
  reader.emplace(*this, chunkRows,
                 contraction.isPaired() ? g.stride[2] * g.channels : 0);
  prepareSums(cut.split.largest() * columns, panelsPerItem * unitsPerItem);
}

void FilterGradientEmitter::emitItem(Value item) {
  SmallVector<Value> position =
      math.delinearize(item, {panelGroups, unitGroups});
  Range numbers = groupOf(position[0], panelsPerItem, panels);
  Range units = groupOf(position[1], unitsPerItem, cut.units);
  auto forAll = [&](llvm::function_ref<void(Value, Value, Value, Value)> body) {
    math.loop(numbers.begin, numbers.end, 1, [&](Value number) {
      Value local = math.sub(number, numbers.begin);
      math.loop(units.begin, units.end, 1, [&](Value unit) {
        Value place = math.add(math.mul(local, unitsPerItem),
                               math.sub(unit, units.begin));
        body(number, local, unit,
             math.mul(place, cut.split.largest() * columns));
      });
    });
  };

  clearSums();
  math.loop(g.batch, [&](Value image) {
    math.loop(g.out[0], [&](Value plane) {
      math.loop(g.out[1] / chunkRows, [&](Value chunk) {
        Value row = math.mul(chunk, chunkRows);
        Value region = reader->read(image, plane, row);
        if (!inPlace)
          math.loop(numbers.begin, numbers.end, 1, [&](Value number) {
            packPositions(
                number, image, plane, row,
                math.mul(math.sub(number, numbers.begin), panelElements));
          });
        forAll([&](Value number, Value local, Value unit, Value sums) {
          if (inPlace) {
            Value line = math.add(math.mul(image, g.out[0]), plane);
            line = math.add(math.mul(line, g.out[1]), row);
            panel.offset = math.add(math.mul(line, g.out[2] * g.outputs),
                                    firstColumn(number));
          } else {
            panel.offset = math.mul(local, panelElements);
          }
          addUnit(number, unit, region, sums);
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
void FilterGradientEmitter::packPositions(Value number, Value image,
                                          Value plane, Value row,
                                          Value offset) {
  Value first = firstColumn(number);
  auto copy = [&](int64_t used) {
    math.loop(chunkRows, [&](Value r) {
      forSteps(g.out[2], [&](Value step, Value w, bool isHalf) {
        Value place = math.add(math.mul(r, contraction.steps(g.out[2])), step);
        Value target = math.add(offset, math.mul(place, columns));
        // Channels that lie side by side are moved at once.
        int64_t widest = g.channelsLast ? 2 * lanes : 1;
        forPowers(used, widest, [&](int64_t lane, int64_t run) {
          auto pixel = [&](Value column) {
            return load(contraction.rhs(),
                        g.indices(image, {plane, math.add(row, r), column},
                                  math.add(first, lane)),
                        run);
          };
          store(wordsOf(w, isHalf, pixel), panel.memory,
                math.add(target, lane));
        });
        forPowers(columns - used, lanes, [&](int64_t lane, int64_t run) {
          storeZeros(panel.memory, math.add(target, used + lane), run);
        });
      });
    });
  };
  withColumns(number, copy);
}

FilterGradientEmitter::UnitPlace FilterGradientEmitter::placeOf(Value unit) {
  SmallVector<Value> window = math.delinearize(
      unit, {cut.outer[0], cut.outer[1], cut.outer[2], cut.split.blocks});
  Value block = window.pop_back_val();
  return {std::move(window), BlockRows(math, cut.split, block)};
}

void FilterGradientEmitter::addUnit(Value number, Value unit, Value region,
                                    Value sums) {
  UnitPlace place = placeOf(unit);
  Value base = math.add(region, math.mul(place.window[0], reader->planeStride));
  base = math.add(base,
                  math.mul(place.window[1], g.dilation[1] * reader->rowStride));
  base = math.add(
      base, math.mul(place.window[2], g.dilation[2] * reader->pixelStride));
  base = math.add(base, place.rows.first());
  base = math.add(base, math.mul(groupOfPanel(number), g.groupChannels()));
  place.rows.with([&](int64_t rows) {
    SmallVector<int64_t> offsets;
    for (int64_t r = 0; r < rows; ++r)
      offsets.push_back(cut.stacked
                            ? r / cut.line * g.dilation[1] * reader->rowStride +
                                  r % cut.line
                            : r);
    int64_t depth = contraction.depthOfStep();
    KLoop loops[] = {{chunkRows, g.stride[1] * reader->rowStride},
                     {contraction.steps(g.out[2]),
                      depth * g.stride[2] * reader->pixelStride,
                      g.out[2] % depth > 0}};
    multiply(offsets, vectors, reader->memory, base, loops, sums);
  });
}

void FilterGradientEmitter::storeUnit(Value number, Value unit, Value sums) {
  UnitPlace place = placeOf(unit);
  auto indices = [&](Value r) {
    SmallVector<Value> window = place.window;
    Value position = math.add(place.rows.first(), r);
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
    storeSums(sums, place.rows.count(), indices,
              /*columnDim=*/0, firstColumn(number), used);
  });
}

FailureOr<int64_t> mpc::emitFilterGradient(const ContractionKernel &kernel) {
  return FilterGradientEmitter(kernel).run();
}
