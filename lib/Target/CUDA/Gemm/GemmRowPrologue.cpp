//===- GemmRowPrologue.cpp - row prologue of GEMM (norm, softmax) ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmRowPrologue.h"

#include "Gemm.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum elements that a thread buffers in registers; no accumulators are
/// live yet.
static constexpr int64_t kMostPrologueElements = 64;
/// Elements per store of zeros.
static constexpr int64_t kZeroLanes = 4;

bool GemmRowPrologue::make(Value operand) {
  return dependsOn(operand,
                   [](Operation *op) { return op->hasTrait<MapsRows>(); });
}

/// Returns a copy of the kernel that only stores `values`.
static OwningOpRef<func::FuncOp> kernelOf(func::FuncOp kernel,
                                          ArrayRef<Value> values) {
  IRMapping mapping;
  OwningOpRef<func::FuncOp> made = cast<func::FuncOp>(kernel->clone(mapping));
  Block &body = made->getBody().front();
  SmallVector<Value> mapped;
  for (Value value : values)
    mapped.push_back(mapping.lookup(value));
  body.getTerminator()->setOperands(mapped);
  made->setFunctionType(FunctionType::get(kernel.getContext(),
                                          kernel.getArgumentTypes(),
                                          TypeRange(ValueRange(values))));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (&op != body.getTerminator() && op.use_empty())
      op.erase();
  return made;
}

std::unique_ptr<GemmRowPrologue>
GemmRowPrologue::of(func::FuncOp kernel, Operation *product, Value operand,
                    int64_t rows, int64_t depth) {
  auto result = std::make_unique<GemmRowPrologue>();
  SmallVector<Value> values = {operand};
  for (auto [number, value] : llvm::enumerate(
           kernel.getBody().front().getTerminator()->getOperands())) {
    if (dependsOn(value, [&](Operation *op) { return op == product; }))
      continue;
    values.push_back(value);
    result->stored.push_back(unsigned(number));
  }
  OwningOpRef<func::FuncOp> made = kernelOf(kernel, values);
  result->plan = RowReductionPlan::of(*made);
  result->count = rows;
  result->depth = depth;
  if (!result->plan || result->plan->results().size() != values.size())
    return nullptr;
  const RowPattern &form = result->plan->form();
  const RowResult &first = result->plan->results().front();
  auto keepsRows = [](Operation *op) {
    return isa<ReshapeOp>(op) && shapeOf(op->getOperand(0)).back() ==
                                     shapeOf(op->getResult(0)).back();
  };
  bool fits = !form.isVertical() && form.axes.size() == 1 &&
              form.shape.back() == depth && result->plan->rowCount() == rows &&
              result->plan->columnSums().empty() &&
              llvm::none_of(result->plan->results(),
                            [&](const RowResult &each) {
                              return result->plan->isPerRow(each.row);
                            }) &&
              llvm::all_of(
                  llvm::concat<Operation *const>(first.movement, first.storing),
                  keepsRows);
  return fits ? std::move(result) : nullptr;
}

int64_t GemmRowPrologue::rowsOf(const GemmTiles &tiles) const {
  return std::min(tiles.m, count);
}

RowThreadMapping GemmRowPrologue::geometry(const GemmTiles &tiles) const {
  RowThreadMapping geometry;
  geometry.everyBlock = true;
  // Vectors must not cross a step or a swizzled chunk.
  geometry.vector = std::min(plan->lanes(), powerOfTwoIn(tiles.k, tiles.k));
  if (tiles.warpgroups)
    geometry.vector = std::min(geometry.vector, TileLayout::pieceOf(2));
  int64_t rows = rowsOf(tiles), vectors = depth / geometry.vector,
          kept = llvm::divideCeil(plan->keptBytes(), int64_t{4});
  auto share = [&] {
    return int64_t(llvm::divideCeil(vectors, geometry.group)) *
           geometry.vector * kept;
  };
  // As few threads per row as can buffer it: concurrent rows hide the latency
  // of memory and reductions. All threads have a row, if there are enough.
  while (geometry.group < kWarp && geometry.group < vectors &&
         (share() > kMostPrologueElements ||
          geometry.group * rows < tiles.threads()))
    geometry.group *= 2;
  geometry.items = tiles.threads() / geometry.group;
  geometry.steps = llvm::divideCeil(vectors, geometry.group);
  geometry.rounds = llvm::divideCeil(rows, geometry.items);
  if (kept && share() <= kMostPrologueElements)
    geometry.keep = tile::Place::registers;
  return geometry;
}

tile::ThreadMappingAttr GemmRowPrologue::team(const GemmTiles &tiles) const {
  return geometry(tiles).team(*plan);
}

double GemmRowPrologue::bytes(const GemmTiles &tiles) const {
  double perRow = 0;
  for (BlockArgument argument : plan->function().getArguments())
    if (!argument.use_empty())
      perRow += double(bytesPerElement(getElementTypeOrSelf(argument))) *
                double(std::min(elementCount(argument), count * depth)) /
                double(count);
  return perRow * double(rowsOf(tiles));
}

namespace {
/// A range of the row tiles: [steps][lines][columns].
struct Box {
  std::array<int64_t, 3> begin, extents;
};
} // namespace

/// Rows of the left-hand side extend along k.
static TileLayout placesOf(const GemmTiles &tiles) {
  return {tiles.warpgroups, /*isCut=*/false};
}

/// Clears a range of the tiles, by all threads of the block.
static void clear(GpuKernel &kernel, Value tile, const TileLayout &layout,
                  const Box &box) {
  auto [steps, lines, columns] = box.extents;
  int64_t lanes = powerOfTwoIn(std::gcd(columns, box.begin[2]), kZeroLanes),
          perLine = columns / lanes, places = steps * lines * perLine,
          threads = kernel.schedule.threads;
  if (places == 0)
    return;
  OpBuilder &b = kernel.builder;
  IndexMath math{b, kernel.loc};
  Type type = lanesOf(cast<MemRefType>(tile.getType()).getElementType(), lanes);
  Value zero = arith::ConstantOp::create(b, kernel.loc, b.getZeroAttr(type));
  Value thread = kernel.named(kernel.thread(), "thread");
  unrolled(kernel, llvm::divideCeil(places, threads), "i", [&](Value i) {
    Value at = math.add(math.mul(i, threads), thread);
    Value within = places % threads ? math.less(at, places) : Value();
    kernel.within(within, [&] {
      SmallVector<Value> place = math.delinearize(at, {steps, lines, perLine});
      place[2] = math.mul(place[2], lanes);
      for (auto [index, begin] : llvm::zip(place, box.begin))
        index = math.add(index, begin);
      place = layout.at(math, place[0], place[1], place[2]);
      math.store(zero, tile, place);
    });
  });
}

void GemmRowPrologue::clearEnds(GpuKernel &kernel, const GemmTiles &tiles,
                                Value tile) const {
  int64_t steps = llvm::divideCeil(depth, tiles.k), rows = rowsOf(tiles),
          last = depth - (steps - 1) * tiles.k;
  TileLayout places = placesOf(tiles);
  clear(kernel, tile, places, {{0, rows, 0}, {steps, tiles.m - rows, tiles.k}});
  clear(kernel, tile, places,
        {{steps - 1, 0, last}, {1, rows, tiles.k - last}});
}

LogicalResult GemmRowPrologue::emit(GpuKernel &kernel, const GemmTiles &tiles,
                                    Value rowBegin, Value columnBegin,
                                    Value tile) const {
  OpBuilder &builder = kernel.builder;
  IndexMath math{builder, kernel.loc};
  tile::ThreadMappingAttr team = kernel.schedule.team;
  clearEnds(kernel, tiles, tile);
  ElementEmitter emitter(builder, kernel.loc, cudaElementTarget());
  for (auto [argument, memref] :
       llvm::zip(plan->function().getArguments(), kernel.inputs))
    if (!argument.use_empty())
      emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  SmallVector<RowKernelEmitter::Stored> results;
  for (const RowResult &result : plan->results()) {
    Value memref = tile;
    if (result.number != 0)
      memref = emitter.viewAs(kernel.outputs[stored[result.number - 1]],
                              shapeOf(result.result));
    results.push_back({result, memref});
  }

  auto own = tile::ForEachOp::create(builder, kernel.loc, rowsOf(tiles),
                                     /*cycles=*/1.0, /*inOrder=*/false, team);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(own.getBody().front().getTerminator());
  Value line = own.getItem();
  Value row = math.add(rowBegin, line);
  Value isStored;
  if (!stored.empty()) {
    isStored = math.less(columnBegin, 1);
    if (count % tiles.m != 0)
      isStored = builder.createOrFold<arith::AndIOp>(kernel.loc, isStored,
                                                     math.less(row, count));
  }
  // Out-of-bounds rows duplicate the last one and are not stored.
  if (count % tiles.m != 0)
    row = math.min(row, count - 1);
  for (RowKernelEmitter::Stored &result : results)
    if (result.result.number != 0)
      result.condition = isStored;
  results.front().placed = [=, places = placesOf(tiles)](ValueRange indices) {
    Value k = indices.back();
    return places.at(math, math.div(k, tiles.k), line, math.rem(k, tiles.k));
  };
  return RowKernelEmitter(emitter, plan->form(), plan->choice(team), results)
      .emitItem(row);
}
