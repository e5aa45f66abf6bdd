//===- RecurrenceKernel.cpp - the steps of a recurrent layer --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places, memory and the walk over time. A step is: the product of the tile of
// states, a barrier, the cell, the hand-over. The input's gates are loaded
// before the product, so that memory answers meanwhile.
//
//===----------------------------------------------------------------------===//

#include "RecurrenceKernel.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;

RecurrenceKernel::RecurrenceKernel(GpuKernel &kernel, RecurrenceOp op,
                                   const RecurrencePlan &plan)
    : kernel(kernel), op(op), plan(plan),
      products(plan.shape.gatesOfProducts()),
      results(*StoredResults::ofEach(kernel.kernel, op)), b(kernel.builder),
      math{b, kernel.loc}, values(b, kernel.loc, cudaElementTarget()),
      f32(b.getF32Type()), thread(kernel.named(kernel.thread(), "thread")) {}

//===----------------------------------------------------------------------===//
// Short forms
//===----------------------------------------------------------------------===//

ElementEmitter RecurrenceKernel::makeEmitter() {
  ElementEmitter emitter(b, kernel.loc, cudaElementTarget());
  for (auto [argument, memory] :
       llvm::zip_equal(kernel.kernel.getArguments(), kernel.inputs))
    emitter.bindMemory(argument, memory);
  return emitter;
}

void RecurrenceKernel::spread(int64_t count, StringRef name,
                              llvm::function_ref<void(Value)> body) {
  int64_t threads = kernel.schedule.threads;
  if (count <= threads) {
    kernel.within(count < threads ? math.less(thread, count) : Value(),
                  [&] { body(thread); });
    return;
  }
  math.loop(thread, math.constant(count), threads,
            [&](Value i) { body(kernel.named(i, name)); });
}

Value RecurrenceKernel::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return values.bitAnd(x, y);
}

Value RecurrenceKernel::orZero(Value inside, Type type,
                               llvm::function_ref<Value()> body) {
  if (!inside)
    return body();
  auto branch = scf::IfOp::create(b, kernel.loc, TypeRange(type), inside,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, kernel.loc, body());
  b.setInsertionPointToStart(branch.elseBlock());
  Value zero =
      arith::ConstantOp::create(b, kernel.loc, type, b.getZeroAttr(type));
  scf::YieldOp::create(b, kernel.loc, zero);
  return branch.getResult(0);
}

Value RecurrenceKernel::element(Value operand, ValueRange at) {
  if (!operand)
    return values.constant(f32, 0);
  ElementEmitter emitter = makeEmitter();
  FailureOr<Value> value = emitter.emit(operand, at, 1);
  if (succeeded(value))
    return *value;
  isRead = false;
  return values.constant(f32, 0);
}

Value RecurrenceKernel::ofGate(Value operand, int64_t gate, const Item &item) {
  Value place = math.add(item.unit, gate * plan.shape.hidden);
  return element(operand, {direction, place});
}

void RecurrenceKernel::eachItem(llvm::function_ref<void(const Item &)> body) {
  int64_t items = plan.rows * plan.units, threads = kernel.schedule.threads;
  unrolled(kernel, llvm::divideCeil(items, threads), "i", [&](Value i) {
    Value number = math.add(math.mul(i, threads), thread);
    Value inside = items % threads ? math.less(number, items) : Value();
    kernel.within(inside, [&] {
      Item item;
      item.slot = i;
      item.blockRow = shown(math.div(number, plan.units), "block_row");
      item.blockUnit = shown(math.rem(number, plan.units), "block_unit");
      item.row = shown(math.add(firstRow, item.blockRow), "row");
      item.unit = shown(math.add(firstUnit, item.blockUnit), "unit");
      Value isThere;
      if (plan.shape.batch % plan.rows)
        isThere = math.less(item.row, plan.shape.batch);
      if (plan.shape.hidden % plan.units)
        isThere = both(isThere, math.less(item.unit, plan.shape.hidden));
      kernel.within(isThere, [&] { body(item); });
    });
  });
}

//===----------------------------------------------------------------------===//
// Places and memory
//===----------------------------------------------------------------------===//

void RecurrenceKernel::placeBlock() {
  SmallVector<Value> place =
      math.delinearize(kernel.block(), {plan.shape.directions, plan.rowSlices(),
                                        plan.unitSlices()});
  direction = plan.shape.directions == 1 ? math.constant(0)
                                         : shown(place[0], "direction");
  auto first = [&](Value slice, int64_t count, int64_t extent,
                   StringRef name) -> Value {
    return count == 1 ? math.constant(0) : shown(math.mul(slice, extent), name);
  };
  firstRow = first(place[1], plan.rowSlices(), plan.rows, "first_row");
  firstUnit = first(place[2], plan.unitSlices(), plan.units, "first_unit");
  if (!plan.meets())
    return;
  group = math.div(kernel.block(), plan.unitSlices());
  isFirst = math.less(place[2], 1);
}

void RecurrenceKernel::makeMemory() {
  Value bytes = dynamicShared(kernel);
  Type tile = plan.tileType();
  SmallVector<int64_t> shape =
      plan.usesMatrixUnits
          ? SmallVector<int64_t>{plan.columns(), plan.depthPitch()}
          : SmallVector<int64_t>{plan.depth, plan.columns()};
  weights = sharedView(kernel, bytes, 0, shape, tile, "weights");
  states = sharedView(kernel, bytes, plan.stateOffset(),
                      {plan.tileRows(), plan.depthPitch()}, tile, "states");
  sums =
      sharedView(kernel, bytes, plan.sumOffset(),
                 {plan.splits, plan.tileRows(), plan.sumPitch()}, f32, "sums");
  int64_t items =
      llvm::divideCeil(plan.rows * plan.units, kernel.schedule.threads);
  hidden = kernel.local({items}, f32, "hidden");
  if (plan.shape.cell == RecurrentCell::lstm)
    cell = kernel.local({items}, f32, "cell");
  if (plan.shape.cell == RecurrentCell::gru)
    update = kernel.local({items}, f32, "update");
  gates = kernel.local({items, plan.shape.gates()}, f32, "gates");
  if (!plan.meets())
    return;
  counters = kernel.named(
      math.view(kernel.scratch, 0, plan.handOverOffset() / 4, b.getI32Type()),
      "counters");
  handed =
      kernel.named(math.view(kernel.scratch, plan.handOverOffset(),
                             2 * plan.handOverElements(), plan.shape.narrow),
                   "handed");
}

/// The most neighbours of a row of the layer's depth that move at once.
static int64_t movedLanes(const RecurrencePlan &plan) {
  int64_t most = 16 / bytesPerElement(plan.tileType()), lanes = 1;
  while (2 * lanes <= most && plan.shape.hidden % (2 * lanes) == 0)
    lanes *= 2;
  return lanes;
}

LogicalResult RecurrenceKernel::loadWeights() {
  int64_t lanes = movedLanes(plan), perColumn = plan.depth / lanes, first = 0,
          gate = 0;
  LogicalResult status = success();
  for (int64_t own : products) {
    int64_t columns = plan.columnsOf(own);
    spread(columns * perColumn, "part", [&](Value part) {
      Value column = shown(math.div(part, perColumn), "column");
      Value k = shown(math.mul(math.rem(part, perColumn), lanes), "k");
      Value unit = math.add(firstUnit, math.rem(column, plan.units));
      Value row =
          math.add(unit, math.mul(math.add(math.div(column, plan.units), gate),
                                  plan.shape.hidden));
      Value inside;
      if (columns != own * plan.units)
        inside = math.less(column, own * plan.units);
      if (plan.shape.hidden % plan.units)
        inside = both(inside, math.less(unit, plan.shape.hidden));
      if (plan.depth != plan.shape.hidden)
        inside = both(inside, math.less(k, plan.shape.hidden));
      Value value = orZero(inside, mpc::lanesOf(f32, lanes), [&]() -> Value {
        ElementEmitter emitter = makeEmitter();
        FailureOr<Value> found =
            emitter.emit(op.getRecurrence(), {direction, row, k}, lanes);
        if (succeeded(found))
          return *found;
        status = failure();
        return values.constant(mpc::lanesOf(f32, lanes), 0);
      });
      Value to = math.add(column, first);
      if (plan.usesMatrixUnits) {
        makeEmitter().store(value, weights, {to, k}, lanes);
        return;
      }
      for (int64_t e = 0; e < lanes; ++e)
        store(lanes == 1
                  ? value
                  : Value(vector::ExtractOp::create(b, kernel.loc, value, e)),
              weights, {math.add(k, e), to});
    });
    first += columns;
    gate += own;
  }
  return status;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

void RecurrenceKernel::loadInitialStates() {
  // Behind the rows and the depth stand zeros for good.
  int64_t pitch = plan.depthPitch();
  Value zero = arith::ConstantOp::create(b, kernel.loc, plan.tileType(),
                                         b.getZeroAttr(plan.tileType()));
  spread(plan.tileRows() * pitch, "place", [&](Value place) {
    store(zero, states, {math.div(place, pitch), math.rem(place, pitch)});
  });
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    store(element(op.getInitialH(), at), hidden, item.slot);
    if (cell)
      store(element(op.getInitialC(), at), cell, item.slot);
  });
  kernel.barrier();
  if (!op.getInitialH())
    return;
  spread(plan.rows * plan.shape.hidden, "place", [&](Value place) {
    Value blockRow = math.div(place, plan.shape.hidden),
          k = math.rem(place, plan.shape.hidden);
    Value row = shown(math.add(firstRow, blockRow), "row");
    kernel.within(
        plan.shape.batch % plan.rows ? math.less(row, plan.shape.batch)
                                     : Value(),
        [&] {
          ElementEmitter emitter = makeEmitter();
          Value state = element(op.getInitialH(), {direction, row, k});
          emitter.store(emitter.round(state, plan.shape.narrow), states,
                        {blockRow, k}, 1);
        });
  });
  kernel.barrier();
}

void RecurrenceKernel::handOver(Value state, const Item &item, Value copy) {
  ElementEmitter emitter = makeEmitter();
  Value rounded = emitter.round(state, plan.shape.narrow);
  if (!plan.meets()) {
    emitter.store(rounded, states, {item.blockRow, item.blockUnit}, 1);
    return;
  }
  Value place = math.add(math.mul(copy, plan.shape.directions), direction);
  place = math.add(math.mul(place, plan.shape.batch), item.row);
  place = math.add(math.mul(place, plan.shape.hidden), item.unit);
  emitter.store(rounded, handed, place, 1);
}

void RecurrenceKernel::takeOver(Value copy) {
  if (!plan.meets()) {
    kernel.barrier();
    return;
  }
  cuda::GridBarrierOp::create(
      b, kernel.loc, counters,
      math.mul(group, RecurrencePlan::kCounterBytes / 4), isFirst,
      b.getI64IntegerAttr(plan.unitSlices()));
  int64_t lanes = movedLanes(plan), perRow = plan.shape.hidden / lanes;
  Value first = math.add(math.mul(copy, plan.shape.directions), direction);
  first = math.add(math.mul(first, plan.shape.batch), firstRow);
  spread(plan.rows * perRow, "part", [&](Value part) {
    Value blockRow = shown(math.div(part, perRow), "block_row");
    Value k = shown(math.mul(math.rem(part, perRow), lanes), "k");
    Value inside;
    if (plan.shape.batch % plan.rows)
      inside = math.less(math.add(firstRow, blockRow), plan.shape.batch);
    kernel.within(inside, [&] {
      Value place =
          math.add(math.mul(math.add(first, blockRow), plan.shape.hidden), k);
      ElementEmitter emitter = makeEmitter();
      emitter.store(emitter.load(handed, plan.shape.narrow, place, lanes),
                    states, {blockRow, k}, lanes);
    });
  });
  kernel.barrier();
}

LogicalResult RecurrenceKernel::storeFinalStates() {
  LogicalResult status = success();
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    auto store = [&](size_t number, Value states) {
      if (number >= results.size() || results[number].all().empty())
        return;
      ElementEmitter emitter = makeEmitter();
      if (failed(results[number].store(emitter, kernel.outputs,
                                       load(states, item.slot), at, 1)))
        status = failure();
    };
    store(1, hidden);
    if (cell)
      store(2, cell);
  });
  return status;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void RecurrenceKernel::loadGates(Value time) {
  int64_t width = plan.shape.gates() * plan.shape.hidden;
  eachItem([&](const Item &item) {
    Value first = math.add(math.mul(direction, width), item.unit);
    for (int64_t gate = 0; gate < plan.shape.gates(); ++gate)
      store(
          element(op.getProjected(),
                  {time, item.row, math.add(first, gate * plan.shape.hidden)}),
          gates, {item.slot, math.constant(gate)});
  });
}

LogicalResult RecurrenceKernel::emitStep(Value step) {
  int64_t last = plan.shape.steps - 1;
  Value time = step;
  if (op.getDirection() != RecurrentDirection::forward) {
    Value back = math.sub(math.constant(last), step);
    time = op.getDirection() == RecurrentDirection::reverse
               ? back
               : values.select(math.less(direction, 1), step, back);
  }
  shown(time, "time");
  loadGates(time);
  LogicalResult status = success();
  for (size_t product = 0; product < products.size(); ++product) {
    bool isLast = product + 1 == products.size();
    // Of one product, copies in turns; else the copy is the product's.
    Value copy = products.size() > 1 ? math.constant(int64_t(product))
                                     : math.rem(step, 2);
    multiply(product);
    kernel.barrier();
    Value goesOn = isLast && last > 0 ? math.less(step, last) : Value();
    eachItem([&](const Item &item) {
      if (failed(emitCell(product, time, item)))
        status = failure();
    });
    if (isLast && last == 0)
      continue;
    kernel.within(goesOn, [&] {
      eachItem([&](const Item &item) {
        Value state = load(hidden, item.slot);
        if (!isLast)
          state = values.mul(load(gates, {item.slot, math.constant(1)}), state);
        handOver(state, item, copy);
      });
      takeOver(copy);
    });
  }
  return status;
}

LogicalResult RecurrenceKernel::emit() {
  placeBlock();
  makeMemory();
  if (failed(loadWeights()))
    return failure();
  loadInitialStates();
  if (plan.keepsFragments && plan.usesMatrixUnits)
    holdFragments();
  LogicalResult status = success();
  math.loop(plan.shape.steps, [&](Value step) {
    status = emitStep(plan.shape.steps > 1 ? kernel.named(step, "step") : step);
  });
  if (failed(status) || failed(storeFinalStates()))
    return failure();
  return success(isRead);
}
