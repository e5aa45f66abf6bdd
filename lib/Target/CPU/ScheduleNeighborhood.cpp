//===- ScheduleNeighborhood.cpp - local search of schedules --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Neighborhood for autotuning: the cost model is accurate to some percent;
// machine-specific effects are found by hill climbing from the best schedule so
// far.
//
//===----------------------------------------------------------------------===//

#include "ContractionBlocking.h"

#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;
using tile::BlocksAttr;

namespace {
/// A mutable #tile.blocks.
struct Numbers {
  explicit Numbers(BlocksAttr blocks)
      : context(blocks.getContext()), rows(blocks.getRows()),
        columns(blocks.getColumns()), chunk(blocks.getChunk()),
        blocksPerItem(blocks.getBlocksPerItem()),
        panelsPerItem(blocks.getPanelsPerItem()), pack(blocks.getPack()),
        ahead(blocks.getAhead()) {}
  BlocksAttr get() const {
    return BlocksAttr::get(context, rows, columns, chunk, blocksPerItem,
                           panelsPerItem, pack, ahead);
  }

  MLIRContext *context;
  int64_t rows, columns, chunk, blocksPerItem, panelsPerItem;
  tile::Packing pack;
  tile::Ahead ahead;
};
} // namespace

/// Returns twice and half of `number`; nothing for 0.
static SmallVector<int64_t> beside(int64_t number) {
  if (number <= 0)
    return {};
  SmallVector<int64_t> values = {2 * number};
  if (number > 1)
    values.push_back(llvm::divideCeil(number, 2));
  return values;
}

static SmallVector<BlocksAttr> allBeside(BlocksAttr around,
                                         const Contraction &contraction) {
  SmallVector<BlocksAttr> found;
  auto vary = [&](int64_t Numbers::*field, ArrayRef<int64_t> values) {
    for (int64_t value : values) {
      Numbers numbers(around);
      numbers.*field = value;
      found.push_back(numbers.get());
    }
  };
  int64_t rows = around.getRows();
  vary(&Numbers::rows, {rows + 1, rows - 1, rows + 2, rows - 2});
  for (int64_t columns : beside(around.getColumns())) {
    if (columns % contraction.lanes)
      continue;
    // Also with the maximum number of rows that fits in registers.
    Numbers numbers(around);
    numbers.columns = columns;
    numbers.rows =
        maxBlockRows(contraction.vectors(columns), contraction.target);
    found.push_back(numbers.get());
  }
  vary(&Numbers::chunk, beside(around.getChunk()));
  if (contraction.form == ContractionForm::Product)
    vary(&Numbers::chunk,
         {around.getChunk() ? 0 : contraction.product.depth / 2});
  vary(&Numbers::blocksPerItem, beside(around.getBlocksPerItem()));
  vary(&Numbers::panelsPerItem, beside(around.getPanelsPerItem()));
  for (unsigned side : {1, 2}) {
    Numbers numbers(around);
    numbers.pack = tile::Packing(unsigned(numbers.pack) ^ side);
    found.push_back(numbers.get());
    numbers = Numbers(around);
    numbers.ahead = tile::Ahead(unsigned(numbers.ahead) ^ side);
    found.push_back(numbers.get());
  }
  return found;
}

SmallVector<Attribute> cpu::neighbouringSchedules(func::FuncOp kernel,
                                                  const CpuTarget &target,
                                                  Attribute around) {
  kernel.getContext()->getOrLoadDialect<tile::TileDialect>();
  ScopedDiagnosticHandler silence(kernel.getContext(),
                                  [](Diagnostic &) { return success(); });
  FailureOr<Operation *> anchor = Contraction::find(kernel);
  if (failed(anchor) || !*anchor || elementCount((*anchor)->getResult(0)) == 0)
    return {};
  FailureOr<Contraction> contraction = Contraction::get(*anchor, target);
  if (failed(contraction))
    return {};
  if (!around)
    return {chooseBlocks(*contraction)};
  SmallVector<Attribute> schedules;
  for (BlocksAttr blocks : allBeside(cast<BlocksAttr>(around), *contraction))
    if (blocks.getRows() > 0 && blocks.getChunk() >= 0 && blocks != around &&
        succeeded(checkBlocks(*contraction, blocks)) &&
        !llvm::is_contained(schedules, blocks))
      schedules.push_back(blocks);
  return schedules;
}
