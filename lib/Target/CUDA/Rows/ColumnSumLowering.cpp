//===- ColumnSumLowering.cpp - column sums over the items of a kernel -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two-stage reduction: every block stores a row of sums in the scratch buffer.
// Blocks are grouped so that both stages reduce about as many rows.
//
//===----------------------------------------------------------------------===//

#include "ColumnSumLowering.h"

#include "../Plan/LastArrivingBlock.h"

#include "Target/Kernel/TileRegions.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static SmallVector<tile::AccumulatorsType>
typesOf(ArrayRef<tile::AccumulatorsOp> summed) {
  return llvm::map_to_vector(
      summed, [](tile::AccumulatorsOp op) { return op.getResult().getType(); });
}

ColumnSumScratch::ColumnSumScratch(ArrayRef<tile::AccumulatorsType> sums,
                                   tile::ThreadMappingAttr team, int64_t blocks)
    : groups(blocks / team.getGroups()),
      lines(blocks + (groups > 1 ? groups : 0)) {
  // One counter per group of blocks, and one for the groups.
  bytes = llvm::alignTo((groups + 1) * sizeof(int32_t), 16);
  for (tile::AccumulatorsType sum : sums) {
    offsets.push_back(bytes);
    bytes = llvm::alignTo(bytes + lines * sum.getColumns() *
                                      bytesPerElement(sum.getElement()),
                          16);
  }
}

ColumnSumLowering::ColumnSumLowering(GpuBody &kernel,
                                     tile::ThreadMappingAttr team,
                                     ElementEmitter &emitter,
                                     ArrayRef<tile::AccumulatorsOp> summed,
                                     ArrayRef<tile::TotalOp> totals)
    : kernel(kernel), team(team), emitter(emitter),
      math(kernel.builder, kernel.loc), index{kernel.builder, kernel.loc},
      types(typesOf(summed)), totals(totals), blocks(kernel.blocks()),
      threads(team.getMembers() * team.getItems()),
      scratch(types, team, blocks) {
  for (tile::AccumulatorsOp op : summed) {
    tile::AccumulatorsType type = op.getResult().getType();
    sums.push_back(
        {op.getResult(), type.getColumns(), type.getElement(), {}, {}});
    length = std::max(length, type.getColumns());
  }
  for (tile::TotalOp total : this->totals)
    if (cast<tile::AccumulatorsType>(total.getSums()[0].getType())
            .getColumns() > 1)
      joined = total.getBy();
  for (Sum &sum : sums)
    (sum.isPerColumn() ? columns : numbers).push_back(&sum);
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

Value ColumnSumLowering::zero(const Sum &sum, int64_t lanes) {
  return math.constant(lanesOf(sum.type, lanes), 0);
}

void ColumnSumLowering::eachStep(
    llvm::function_ref<void(Value step, Value position)> body) {
  int64_t stride = team.getMembers() * team.getVector();
  Block *outside = kernel.builder.getInsertionBlock();
  index.carry(index.constant(0), index.constant(team.getSteps()), 1, {},
              [&](Value step, ValueRange) {
                Block *block = kernel.builder.getInsertionBlock();
                if (team.getSums() == tile::Place::registers &&
                    block != outside)
                  block->getParentOp()->setAttr(kUnrollAttr,
                                                kernel.builder.getUnitAttr());
                Value position = index.add(index.mul(step, stride), start);
                Value inside = team.getSteps() * stride == length
                                   ? Value()
                                   : index.less(position, length);
                kernel.within(inside, [&] { body(step, position); });
                return Carried{};
              });
}

LogicalResult
ColumnSumLowering::eachColumn(llvm::function_ref<LogicalResult(Value)> body) {
  Value first = index.mul(kernel.thread(), joined);
  LogicalResult result = success();
  index.carry(first, index.constant(length), threads * joined, {},
              [&](Value column, ValueRange) {
                kernel.named(column, "column");
                result = body(column);
                return Carried{};
              });
  return result;
}

Value ColumnSumLowering::at(const Sum &sum, Value line, Value column) {
  if (!sum.isPerColumn())
    return line;
  return index.add(index.mul(line, length), column);
}

//===----------------------------------------------------------------------===//
// Accumulation per thread
//===----------------------------------------------------------------------===//

void ColumnSumLowering::begin(Value firstPosition, Value itemOfBlock) {
  start = firstPosition;
  item = itemOfBlock;
  OpBuilder &builder = kernel.builder;
  for (auto [sum, offset] : llvm::zip(sums, scratch.offsets)) {
    int64_t width = sum.width;
    sum.lines = kernel.named(
        index.view(kernel.scratch, offset, scratch.lines * width, sum.type),
        "sumsOfBlocks");
    if (sum.isPerColumn() && team.getSums() == tile::Place::nowhere) {
      eachStep([&, &sum = sum](Value, Value position) {
        emitter.store(zero(sum, team.getVector()), sum.lines,
                      at(sum, kernel.block(), position), team.getVector());
      });
      continue;
    }
    sum.own = kernel.local(sum.isPerColumn() ? team.getSteps() : 1,
                           lanesOf(sum.type, team.getVector()), "sumsOfRows");
    auto clear = [&, &sum = sum](Value step, Value) {
      memref::StoreOp::create(builder, kernel.loc, zero(sum, team.getVector()),
                              sum.own, step);
    };
    if (!sum.isPerColumn()) {
      clear(index.constant(0), {});
      continue;
    }
    // Including vectors past the end of the row.
    Block *outside = builder.getInsertionBlock();
    index.carry(index.constant(0), index.constant(team.getSteps()), 1, {},
                [&](Value step, ValueRange) {
                  Block *block = builder.getInsertionBlock();
                  if (block != outside)
                    block->getParentOp()->setAttr(kUnrollAttr,
                                                  builder.getUnitAttr());
                  clear(step, {});
                  return Carried{};
                });
  }
}

void ColumnSumLowering::add(tile::AccumulateOp add, Value step,
                            Value position) {
  OpBuilder &builder = kernel.builder;
  Sum &sum = *llvm::find_if(
      sums, [&](const Sum &sum) { return sum.sums == add.getSums(); });
  Value element = add.getValue();
  if (!sum.own) {
    Value where = at(sum, kernel.block(), position);
    Value known = emitter.load(sum.lines, sum.type, where, team.getVector());
    emitter.store(math.add(known, element), sum.lines, where, team.getVector());
    return;
  }
  Value where = sum.isPerColumn() ? step : index.constant(0);
  Value known = memref::LoadOp::create(builder, kernel.loc, sum.own, where);
  memref::StoreOp::create(builder, kernel.loc, math.add(known, element),
                          sum.own, where);
}

//===----------------------------------------------------------------------===//
// Reduction per block
//===----------------------------------------------------------------------===//

void ColumnSumLowering::storeColumnPartials(Sum &sum) {
  if (!sum.own)
    return;
  auto own = [&](Value step) -> Value {
    return memref::LoadOp::create(kernel.builder, kernel.loc, sum.own, step);
  };
  if (team.getItems() == 1) {
    eachStep([&](Value step, Value position) {
      emitter.store(own(step), sum.lines, at(sum, kernel.block(), position),
                    team.getVector());
    });
    return;
  }
  // Rows that the block processes concurrently, one after the other.
  Value &shared = sharedOf[sum.type];
  if (shared)
    kernel.barrier();
  else
    shared = kernel.shared({team.getItems() * length}, sum.type, "sumsOfItems");
  eachStep([&](Value step, Value position) {
    emitter.store(own(step), shared, at(sum, item, position), team.getVector());
  });
  kernel.barrier();
  (void)eachColumn([&](Value column) {
    Carried total =
        index.carry(index.constant(0), index.constant(team.getItems()), 1,
                    zero(sum, joined), [&](Value number, ValueRange carried) {
                      Value next = emitter.load(
                          shared, sum.type, at(sum, number, column), joined);
                      return Carried{math.add(carried[0], next)};
                    });
    emitter.store(total.front(), sum.lines, at(sum, kernel.block(), column),
                  joined);
    return success();
  });
}

/// Reduces all elements over vector lanes, then over every 32nd thread, then
/// over those.
void ColumnSumLowering::storeScalarPartial(Sum &sum) {
  Value own = memref::LoadOp::create(kernel.builder, kernel.loc, sum.own,
                                     index.constant(0));
  if (team.getVector() > 1) {
    Carried lanes;
    for (int64_t lane = 0; lane < team.getVector(); ++lane)
      lanes.push_back(
          vector::ExtractOp::create(kernel.builder, kernel.loc, own, lane));
    for (; lanes.size() > 1; lanes.truncate(lanes.size() / 2))
      for (size_t lane = 0; lane < lanes.size() / 2; ++lane)
        lanes[lane] = math.add(lanes[2 * lane], lanes[2 * lane + 1]);
    own = lanes.front();
  }
  int64_t width = std::min<int64_t>(threads, kWarp);
  Value shared = kernel.shared({threads}, sum.type, "sumsOfThreads");
  Value thread = kernel.thread();
  emitter.store(own, shared, thread, 1);
  kernel.barrier();
  auto addUp = [&](Value first, int64_t count, int64_t stride) -> Value {
    return index
        .carry(index.constant(0), index.constant(count), 1, zero(sum, 1),
               [&](Value number, ValueRange carried) {
                 Value place = index.add(first, index.mul(number, stride));
                 return Carried{math.add(
                     carried[0], emitter.load(shared, sum.type, place, 1))};
               })
        .front();
  };
  if (threads > width) {
    kernel.within(index.less(thread, width), [&] {
      emitter.store(addUp(thread, threads / width, width), shared, thread, 1);
    });
    kernel.barrier();
  }
  kernel.within(index.less(thread, 1), [&] {
    emitter.store(addUp(index.constant(0), width, 1), sum.lines, kernel.block(),
                  1);
  });
}

//===----------------------------------------------------------------------===//
// Reduction over all blocks
//===----------------------------------------------------------------------===//

LogicalResult
ColumnSumLowering::lastOf(int64_t count, Value counter,
                          llvm::function_ref<LogicalResult()> body) {
  Value counters = index.view(kernel.scratch, 0, scratch.groups + 1,
                              kernel.builder.getI32Type());
  return inLastBlock(kernel, counters, counter, count, body);
}

LogicalResult ColumnSumLowering::join(Value first, int64_t count,
                                      Line takeColumns, Line takeNumbers) {
  auto added = [&](ArrayRef<Sum *> of, Value column, int64_t lanes) -> Carried {
    Carried zeros;
    for (Sum *sum : of)
      zeros.push_back(zero(*sum, lanes));
    return index.carry(
        index.constant(0), index.constant(count), 1, zeros,
        [&](Value number, ValueRange carried) {
          Carried next;
          Value line = index.add(first, number);
          for (auto [sum, value] : llvm::zip(of, carried))
            next.push_back(
                math.add(value, emitter.load(sum->lines, sum->type,
                                             at(*sum, line, column), lanes)));
          return next;
        });
  };
  if (!columns.empty() && failed(eachColumn([&](Value column) {
        return takeColumns(added(columns, column, joined), column);
      })))
    return failure();
  if (numbers.empty())
    return success();
  LogicalResult result = success();
  kernel.within(index.less(kernel.thread(), 1),
                [&] { result = takeNumbers(added(numbers, {}, 1), {}); });
  return result;
}

/// Emits the epilogue of some sums at a column.
void ColumnSumLowering::emitTotals(ArrayRef<Sum *> of, ArrayRef<Value> values,
                                   Value column) {
  for (tile::TotalOp total : totals) {
    if (total.getSums().front() != of.front()->sums)
      continue;
    SmallVector<Value> arguments = {column ? column : index.constant(0)};
    llvm::append_range(arguments, values);
    moveBody(kernel.builder, total.getBody(), arguments);
  }
}

/// Final stage: reduces `count` rows from `first` on and stores the totals.
LogicalResult ColumnSumLowering::storeTotals(Value first, int64_t count) {
  return join(
      first, count,
      [&](ArrayRef<Value> values, Value column) {
        emitTotals(columns, values, column);
        return success();
      },
      [&](ArrayRef<Value> values, Value) {
        emitTotals(numbers, values, {});
        return success();
      });
}

LogicalResult ColumnSumLowering::finish() {
  for (Sum *sum : columns)
    storeColumnPartials(*sum);
  for (Sum *sum : numbers)
    storeScalarPartial(*sum);

  int64_t group = team.getGroups(), groups = scratch.groups;
  if (blocks == 1) {
    kernel.barrier();
    return storeTotals(index.constant(0), 1);
  }
  Value ofGroups = index.constant(groups);
  if (groups == 1)
    return lastOf(blocks, ofGroups,
                  [&] { return storeTotals(index.constant(0), blocks); });
  Value own = kernel.named(index.div(kernel.block(), group), "group");
  return lastOf(group, own, [&]() -> LogicalResult {
    Value line = index.add(own, blocks);
    auto leave = [&](ArrayRef<Sum *> of, int64_t lanes) {
      return [this, of, lanes, line](ArrayRef<Value> values, Value column) {
        for (auto [sum, value] : llvm::zip(of, values))
          emitter.store(value, sum->lines, at(*sum, line, column), lanes);
        return success();
      };
    };
    if (failed(join(index.mul(own, group), group, leave(columns, joined),
                    leave(numbers, 1))))
      return failure();
    return lastOf(groups, ofGroups,
                  [&] { return storeTotals(index.constant(blocks), groups); });
  });
}
