//===- RowColumnSums.cpp - sums over the rows of a row kernel -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every block leaves a line of sums in the scratch buffer. Blocks are in teams
// of about as many as there are teams, so that neither step has many lines to
// add.
//
//===----------------------------------------------------------------------===//

#include "RowColumnSums.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

static constexpr int64_t kWarp = 32, kVectorBytes = 16;

ColumnSums::ColumnSums(GpuKernel &kernel, const RowPlan &plan,
                       const RowGeometry &geometry, ElementEmitter &emitter)
    : kernel(kernel), plan(plan), geometry(geometry), emitter(emitter),
      math(kernel.builder, kernel.loc), index{kernel.builder, kernel.loc},
      scratch(plan, geometry, kernel.schedule.blocks[0]) {
  // What is made of the sums is emitted in the kernel as it was written.
  for (auto [argument, memref] :
       llvm::zip(kernel.kernel.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, memref);
  joined = kVectorBytes / sizeof(float);
  for (const RowColumnSum &sum : plan.columnSums()) {
    Type type = carriedType(accumulatorType(sum.op));
    joined = std::min(joined, kVectorBytes / bytesPerElement(type));
    while (shapeOf(sum.op->getOperand(0)).back() % joined)
      joined /= 2;
    // Reshaped columns are stored one by one.
    Operation *terminator = kernel.kernel.getBody().front().getTerminator();
    for (unsigned result : sum.results)
      if (ArrayRef<int64_t> shape = shapeOf(terminator->getOperand(result));
          sum.isPerColumn &&
          (shape.empty() ||
           shape.back() != shapeOf(sum.op->getOperand(0)).back()))
        joined = 1;
    sums.push_back({&sum, type, {}, {}});
  }
  // Vectors only where every thread has one.
  while (joined > 1 && plan.length() / joined < kernel.schedule.threads)
    joined /= 2;
  for (Sum &sum : sums)
    (sum.isPerColumn() ? columns : numbers).push_back(&sum);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Value ColumnSums::zero(const Sum &sum, int64_t lanes) {
  return math.constant(lanesOf(sum.type, lanes), 0);
}

void ColumnSums::within(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  OpBuilder &builder = kernel.builder;
  auto branch = scf::IfOp::create(builder, kernel.loc, condition);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

void ColumnSums::eachStep(
    llvm::function_ref<void(Value step, Value position)> body) {
  int64_t stride = geometry.group * geometry.vector;
  Block *outside = kernel.builder.getInsertionBlock();
  (void)carryLoop(emitter, index.constant(0), index.constant(geometry.steps), 1,
                  {}, [&](Value step, ValueRange) -> FailureOr<Carried> {
                    Block *block = kernel.builder.getInsertionBlock();
                    if (geometry.sums == RowKeep::Registers && block != outside)
                      block->getParentOp()->setAttr(
                          kUnrollAttr, kernel.builder.getUnitAttr());
                    Value position = index.add(index.mul(step, stride), start);
                    Value inside = geometry.steps * stride == plan.length()
                                       ? Value()
                                       : index.less(position, plan.length());
                    within(inside, [&] { body(step, position); });
                    return Carried{};
                  });
}

LogicalResult
ColumnSums::eachColumn(llvm::function_ref<LogicalResult(Value)> body) {
  Value first = index.mul(kernel.thread(), joined);
  FailureOr<Carried> done =
      carryLoop(emitter, first, index.constant(plan.length()),
                kernel.schedule.threads * joined, {},
                [&](Value column, ValueRange) -> FailureOr<Carried> {
                  kernel.named(column, "column");
                  if (failed(body(column)))
                    return failure();
                  return Carried{};
                });
  return success(succeeded(done));
}

Value ColumnSums::at(const Sum &sum, Value line, Value column) {
  if (!sum.isPerColumn())
    return line;
  return index.add(index.mul(line, plan.length()), column);
}

//===----------------------------------------------------------------------===//
// A thread's rows
//===----------------------------------------------------------------------===//

void ColumnSums::begin(Value firstPosition, Value itemOfBlock) {
  start = firstPosition;
  item = itemOfBlock;
  OpBuilder &builder = kernel.builder;
  for (auto [sum, offset] : llvm::zip(sums, scratch.offsets)) {
    int64_t width = sum.isPerColumn() ? plan.length() : 1;
    sum.lines = kernel.named(
        index.view(kernel.scratch, offset, scratch.lines * width, sum.type),
        "sumsOfBlocks");
    if (sum.isPerColumn() && geometry.sums == RowKeep::Nowhere) {
      eachStep([&, &sum = sum](Value, Value position) {
        emitter.store(zero(sum, geometry.vector), sum.lines,
                      at(sum, kernel.block(), position), geometry.vector);
      });
      continue;
    }
    sum.own = kernel.local(sum.isPerColumn() ? geometry.steps : 1,
                           lanesOf(sum.type, geometry.vector), "sumsOfRows");
    auto clear = [&, &sum = sum](Value step, Value) {
      memref::StoreOp::create(builder, kernel.loc, zero(sum, geometry.vector),
                              sum.own, step);
    };
    if (!sum.isPerColumn()) {
      clear(index.constant(0), {});
      continue;
    }
    // Also the vectors that lie behind the row.
    Block *outside = builder.getInsertionBlock();
    (void)carryLoop(emitter, index.constant(0), index.constant(geometry.steps),
                    1, {}, [&](Value step, ValueRange) -> FailureOr<Carried> {
                      Block *block = builder.getInsertionBlock();
                      if (block != outside)
                        block->getParentOp()->setAttr(kUnrollAttr,
                                                      builder.getUnitAttr());
                      clear(step, {});
                      return Carried{};
                    });
  }
}

LogicalResult ColumnSums::add(const ReductionLoop::Place &place, Value step,
                              Value position) {
  OpBuilder &builder = kernel.builder;
  for (Sum &sum : sums) {
    FailureOr<Value> value = emitter.emitIn(sum.of->operand, place.indices,
                                            place.lanes, place.range);
    if (failed(value))
      return failure();
    Value element = toAccumulator(math, *value, accumulatorType(sum.of->op));
    if (!sum.own) {
      Value where = at(sum, kernel.block(), position);
      Value known = emitter.load(sum.lines, sum.type, where, geometry.vector);
      emitter.store(math.add(known, element), sum.lines, where,
                    geometry.vector);
      continue;
    }
    Value where = sum.isPerColumn() ? step : index.constant(0);
    Value known = memref::LoadOp::create(builder, kernel.loc, sum.own, where);
    memref::StoreOp::create(builder, kernel.loc, math.add(known, element),
                            sum.own, where);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// A block's rows
//===----------------------------------------------------------------------===//

void ColumnSums::leaveColumns(Sum &sum) {
  if (!sum.own)
    return;
  auto own = [&](Value step) -> Value {
    return memref::LoadOp::create(kernel.builder, kernel.loc, sum.own, step);
  };
  if (geometry.items == 1) {
    eachStep([&](Value step, Value position) {
      emitter.store(own(step), sum.lines, at(sum, kernel.block(), position),
                    geometry.vector);
    });
    return;
  }
  // The rows that the block has at a time, one below the other.
  Value &shared = sharedOf[sum.type];
  if (shared)
    kernel.barrier();
  else
    shared = kernel.shared({geometry.items * plan.length()}, sum.type,
                           "sumsOfItems");
  eachStep([&](Value step, Value position) {
    emitter.store(own(step), shared, at(sum, item, position), geometry.vector);
  });
  kernel.barrier();
  (void)eachColumn([&](Value column) {
    FailureOr<Carried> total =
        carryLoop(emitter, index.constant(0), index.constant(geometry.items), 1,
                  zero(sum, joined),
                  [&](Value number, ValueRange carried) -> FailureOr<Carried> {
                    Value next = emitter.load(shared, sum.type,
                                              at(sum, number, column), joined);
                    return Carried{math.add(carried[0], next)};
                  });
    emitter.store(total->front(), sum.lines, at(sum, kernel.block(), column),
                  joined);
    return success();
  });
}

/// The sum of all that the threads have: of their lanes, of every 32nd thread,
/// of those.
void ColumnSums::leaveNumber(Sum &sum) {
  Value own = memref::LoadOp::create(kernel.builder, kernel.loc, sum.own,
                                     index.constant(0));
  if (geometry.vector > 1) {
    Carried lanes;
    for (int64_t lane = 0; lane < geometry.vector; ++lane)
      lanes.push_back(
          vector::ExtractOp::create(kernel.builder, kernel.loc, own, lane));
    for (; lanes.size() > 1; lanes.truncate(lanes.size() / 2))
      for (size_t lane = 0; lane < lanes.size() / 2; ++lane)
        lanes[lane] = math.add(lanes[2 * lane], lanes[2 * lane + 1]);
    own = lanes.front();
  }
  int64_t threads = kernel.schedule.threads,
          width = std::min<int64_t>(threads, kWarp);
  Value shared = kernel.shared({threads}, sum.type, "sumsOfThreads");
  Value thread = kernel.thread();
  emitter.store(own, shared, thread, 1);
  kernel.barrier();
  auto addUp = [&](Value first, int64_t count, int64_t stride) -> Value {
    return carryLoop(
               emitter, index.constant(0), index.constant(count), 1,
               zero(sum, 1),
               [&](Value number, ValueRange carried) -> FailureOr<Carried> {
                 Value place = index.add(first, index.mul(number, stride));
                 return Carried{math.add(
                     carried[0], emitter.load(shared, sum.type, place, 1))};
               })
        ->front();
  };
  if (threads > width) {
    within(index.less(thread, width), [&] {
      emitter.store(addUp(thread, threads / width, width), shared, thread, 1);
    });
    kernel.barrier();
  }
  within(index.less(thread, 1), [&] {
    emitter.store(addUp(index.constant(0), width, 1), sum.lines, kernel.block(),
                  1);
  });
}

//===----------------------------------------------------------------------===//
// All blocks
//===----------------------------------------------------------------------===//

LogicalResult ColumnSums::lastOf(int64_t count, Value counter,
                                 llvm::function_ref<LogicalResult()> body) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Type i32 = builder.getI32Type();
  Value zeroth = index.constant(0);
  Value counters = kernel.named(
      index.view(kernel.scratch, 0, scratch.teams + 1, i32), "counters");
  cuda::FenceOp::create(builder, loc);
  kernel.barrier();
  Value before = kernel.shared({1}, i32, "blocksBefore");
  Value isFirst = index.less(kernel.thread(), 1);
  within(isFirst, [&] {
    Value number =
        memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addi,
                                    math.integer(i32, 1), counters, counter);
    memref::StoreOp::create(builder, loc, number, before, zeroth);
  });
  kernel.barrier();
  Value isLast = math.compare(
      CmpIPredicate::eq, memref::LoadOp::create(builder, loc, before, zeroth),
      math.integer(i32, count - 1));
  LogicalResult result = success();
  within(isLast, [&] {
    cuda::FenceOp::create(builder, loc);
    within(isFirst, [&] {
      memref::StoreOp::create(builder, loc, math.integer(i32, 0), counters,
                              counter);
    });
    result = body();
  });
  return result;
}

LogicalResult ColumnSums::join(Value first, int64_t count, Line takeColumns,
                               Line takeNumbers) {
  auto added = [&](ArrayRef<Sum *> of, Value column, int64_t lanes) -> Carried {
    Carried zeros;
    for (Sum *sum : of)
      zeros.push_back(zero(*sum, lanes));
    return *carryLoop(
        emitter, index.constant(0), index.constant(count), 1, zeros,
        [&](Value number, ValueRange carried) -> FailureOr<Carried> {
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
  within(index.less(kernel.thread(), 1),
         [&] { result = takeNumbers(added(numbers, {}, 1), {}); });
  return result;
}

/// Stores what is made of sums at a column of the results.
LogicalResult ColumnSums::store(ArrayRef<Sum *> of, ArrayRef<Value> values,
                                Value column, int64_t lanes) {
  Operation *terminator = kernel.kernel.getBody().front().getTerminator();
  for (auto [sum, value] : llvm::zip(of, values)) {
    emitter.bindValue(sum->of->op->getResult(0),
                      finishReduction(emitter, sum->of->op, value));
    for (unsigned number : sum->of->results) {
      Value result = terminator->getOperand(number);
      SmallVector<Value> indices =
          column
              ? index.delinearize(column, shapeOf(result))
              : SmallVector<Value>(shapeOf(result).size(), index.constant(0));
      FailureOr<Value> made = emitter.emit(result, indices, lanes);
      if (failed(made))
        return failure();
      emitter.store(*made, kernel.outputs[number], indices, lanes);
    }
  }
  return success();
}

/// The last of all: what `count` lines from `first` on add up to is stored.
LogicalResult ColumnSums::storeTotals(Value first, int64_t count) {
  return join(
      first, count,
      [&](ArrayRef<Value> values, Value column) {
        return store(columns, values, column, joined);
      },
      [&](ArrayRef<Value> values, Value) {
        return store(numbers, values, {}, 1);
      });
}

LogicalResult ColumnSums::finish() {
  for (Sum *sum : columns)
    leaveColumns(*sum);
  for (Sum *sum : numbers)
    leaveNumber(*sum);

  int64_t blocks = kernel.schedule.blocks[0], team = geometry.team,
          teams = scratch.teams;
  if (blocks == 1) {
    kernel.barrier();
    return storeTotals(index.constant(0), 1);
  }
  Value ofTeams = index.constant(teams);
  if (teams == 1)
    return lastOf(blocks, ofTeams,
                  [&] { return storeTotals(index.constant(0), blocks); });
  Value own = kernel.named(index.div(kernel.block(), team), "team");
  return lastOf(team, own, [&]() -> LogicalResult {
    Value line = index.add(own, blocks);
    auto leave = [&](ArrayRef<Sum *> of, int64_t lanes) {
      return [this, of, lanes, line](ArrayRef<Value> values, Value column) {
        for (auto [sum, value] : llvm::zip(of, values))
          emitter.store(value, sum->lines, at(*sum, line, column), lanes);
        return success();
      };
    };
    if (failed(join(index.mul(own, team), team, leave(columns, joined),
                    leave(numbers, 1))))
      return failure();
    return lastOf(teams, ofTeams,
                  [&] { return storeTotals(index.constant(blocks), teams); });
  });
}
