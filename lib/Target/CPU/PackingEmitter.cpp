//===- PackingEmitter.cpp - packing kernels -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A work item is a group of panels times a chunk of their depth: adjacent rows
// in memory go to adjacent panels.
//
//===----------------------------------------------------------------------===//

#include "ContractionEmitter.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
class PackingEmitter : public ContractionEmitter {
public:
  using ContractionEmitter::ContractionEmitter;

  void prepare() override;
  void emitItem(Value item) override;

private:
  void clearMissing(Range numbers, Value offset, int64_t count);

  int64_t depth = contraction.product.depth;
  int64_t piece = blocks.getChunk() ? blocks.getChunk() : depth;
  int64_t pieces = llvm::divideCeil(depth, piece);
};
} // namespace

void PackingEmitter::prepare() {
  items = panelGroups * pieces;
  // Memory-bound: some cycles per vector read and written.
  constexpr double kCyclesOfVector = 8;
  cyclesPerItem = kCyclesOfVector * double(contraction.steps(depth)) *
                  double(panels * columns) / double(lanes * items);
  panel.memory = asBits(arguments.outputs.front(), contraction.wordType());
}

void PackingEmitter::emitItem(Value item) {
  SmallVector<Value> position = math.delinearize(item, {panelGroups, pieces});
  Range numbers = groupOf(position[0], panelsPerItem, panels);
  Value first = math.mul(position[1], piece);
  Value step = math.mul(position[1], contraction.steps(piece));
  Value offset = math.mul(
      math.add(math.mul(numbers.begin, contraction.steps(depth)), step),
      columns);
  withColumns(position[1], depth, piece, [&](int64_t count) {
    packPanels(contraction.rhs(), {}, numbers, first, count, panel.memory,
               offset, contraction.steps(depth), /*inOrder=*/true);
    clearMissing(numbers, offset, count);
  });
}

/// Clears the padding columns, which packing of contiguous columns fills with
/// copies of the last one.
void PackingEmitter::clearMissing(Range numbers, Value offset, int64_t count) {
  if (!contraction.transposeRhs || contraction.product.n % columns == 0)
    return;
  math.loop(numbers.begin, numbers.end, 1, [&](Value number) {
    Value panelOffset =
        math.mul(math.sub(number, numbers.begin), contraction.steps(depth));
    withColumns(number, [&](int64_t used) {
      if (used == columns)
        return;
      math.loop(contraction.steps(count), [&](Value step) {
        Value row = math.mul(math.add(panelOffset, step), columns);
        clear(panel.memory, math.add(offset, row), used, columns, lanes);
      });
    });
  });
}

FailureOr<int64_t> cpu::emitPacking(const ContractionKernel &kernel) {
  return PackingEmitter(kernel).run();
}
