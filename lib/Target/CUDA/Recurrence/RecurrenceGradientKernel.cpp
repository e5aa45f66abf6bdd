//===- RecurrenceGradientKernel.cpp - backpropagation through time --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step consists of the GEMM on the previous step's tile of gate gradients
// (initially zero), a barrier, the cell, and the exchange between blocks. Saved
// activations are loaded before the GEMM, to hide memory latency.
//
//===----------------------------------------------------------------------===//

#include "RecurrenceGradientKernel.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

void RecurrenceGradientKernel::loadFinalStates() {
  clearTile();
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    store(element(op.getFinalHGradient(), at), past, item.slot);
    if (cell)
      store(element(op.getFinalCGradient(), at), cell, item.slot);
  });
  kernel.barrier();
}

void RecurrenceGradientKernel::loadKept(Value step, Value time) {
  int64_t count = op.getKeptValues();
  Value previous = timeOf(math.add(step, -1));
  Value hasPrevious =
      plan.shape.steps > 1 ? math.less(math.constant(0), step) : Value();
  eachItem([&](const Item &item) {
    auto keep = [&](int64_t number, Value value) {
      store(value, kept, {item.slot, math.constant(number)});
    };
    for (int64_t number = 0; number < count; ++number)
      keep(number, ofStep(op.getKept(), time, count, number, item));
    auto initial = [&] {
      return element(op.getInitial(), {direction, item.row, item.unit});
    };
    keep(count, !hasPrevious ? initial()
                             : kernel.orElse(
                                   hasPrevious, f32,
                                   [&] {
                                     return ofStep(op.getKept(), previous,
                                                   count, count - 1, item);
                                   },
                                   initial));
    keep(count + 1, element(op.getResultGradient(),
                            {time, direction, item.row, item.unit}));
  });
}

void RecurrenceGradientKernel::emitStep(Value back) {
  int64_t last = plan.shape.steps - 1;
  Value step = shown(math.sub(math.constant(last), back), "step");
  Value time = shown(timeOf(step), "time");
  loadKept(step, time);
  for (size_t product = 0; product < products.size(); ++product) {
    bool isLast = product + 1 == products.size();
    size_t next = (product + 1) % products.size();
    Value copy = copyOf(product, back);
    multiply(product);
    kernel.barrier();
    eachItem([&](const Item &item) { emitCell(product, time, item); });
    bool goesOnAlways = !isLast || reachesInitialState();
    if (!goesOnAlways && last == 0)
      continue;
    kernel.within(goesOnAlways ? Value() : math.less(back, last), [&] {
      eachItem([&](const Item &item) {
        for (int64_t part = 0; part < products[next].depth; ++part)
          handOver(load(left, {item.slot, math.constant(part)}), item, part,
                   copy);
      });
      receiveStates(next, copy);
    });
  }
}

void RecurrenceGradientKernel::storeInitialStates() {
  if (reachesInitialState()) {
    multiply(0);
    kernel.barrier();
  }
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    if (reachesInitialState())
      storeResult(op.getInitialHGradient(),
                  values.add(sumOf(0, item), load(past, item.slot)), at);
    if (cell)
      storeResult(op.getOtherGradient(), load(cell, item.slot), at);
  });
}

LogicalResult RecurrenceGradientKernel::emit() {
  placeBlock();
  makeMemory();
  past = perItem("past");
  if (op.getCell() == RecurrentCell::lstm)
    cell = perItem("cell");
  kept = perItem("kept", op.getKeptValues() + 2);
  left = perItem("left", plan.rowElements() / plan.shape.hidden);
  if (failed(loadWeights()))
    return failure();
  loadFinalStates();
  if (plan.keepsFragments && plan.usesMatrixUnits)
    holdFragments();
  math.loop(plan.shape.steps, [&](Value back) {
    emitStep(plan.shape.steps > 1 ? kernel.named(back, "back") : back);
  });
  storeInitialStates();
  return success(isRead && areStored);
}

//===----------------------------------------------------------------------===//
// Cells
//
// Formulas of DecomposeRecurrenceGradient.cpp, in f32.
//===----------------------------------------------------------------------===//

Value RecurrenceGradientKernel::keptValue(int64_t number, const Item &item) {
  return load(kept, {item.slot, math.constant(number)});
}

Value RecurrenceGradientKernel::ofState(const Item &item) {
  Value state = values.add(sumOf(0, item), load(past, item.slot));
  if (op.getResultGradient())
    state = values.add(state, keptValue(op.getKeptValues() + 1, item));
  return shown(state, "state");
}

Value RecurrenceGradientKernel::lessThanOne(Value value) {
  return values.sub(values.constant(f32, 1), value);
}

Value RecurrenceGradientKernel::ofSigmoid(Value value) {
  return values.mul(value, lessThanOne(value));
}

Value RecurrenceGradientKernel::ofTanh(Value value) {
  return values.mul(lessThanOne(value),
                    values.add(value, values.constant(f32, 1)));
}

void RecurrenceGradientKernel::storeGates(Value result, ValueRange gates,
                                          Value time, const Item &item) {
  for (auto [number, value] : llvm::enumerate(gates))
    storeStep(result, value, time, int64_t(gates.size()), int64_t(number),
              item);
}

void RecurrenceGradientKernel::leave(ValueRange gates, const Item &item) {
  for (auto [number, value] : llvm::enumerate(gates))
    store(value, left, {item.slot, math.constant(int64_t(number))});
}

void RecurrenceGradientKernel::lstm(Value time, const Item &item) {
  Value in = keptValue(0, item), out = keptValue(1, item),
        forget = keptValue(2, item), fresh = keptValue(3, item),
        now = keptValue(4, item), before = keptValue(5, item);
  auto look = [&](Value to, Value gate, int64_t number) {
    if (!op.getPeephole())
      return to;
    return values.add(to,
                      values.mul(gate, ofGate(op.getPeephole(), number, item)));
  };
  Value state = ofState(item), shown = values.tanh(now);
  Value dOut = values.mul(values.mul(state, shown), ofSigmoid(out));
  Value dNow = values.add(load(cell, item.slot),
                          values.mul(values.mul(state, out), ofTanh(shown)));
  dNow = look(dNow, dOut, 1);
  Value dIn = values.mul(values.mul(dNow, fresh), ofSigmoid(in));
  Value dForget = values.mul(values.mul(dNow, before), ofSigmoid(forget));
  Value dFresh = values.mul(values.mul(dNow, in), ofTanh(fresh));
  store(look(look(values.mul(dNow, forget), dIn, 0), dForget, 2), cell,
        item.slot);
  store(values.constant(f32, 0), past, item.slot);
  SmallVector<Value> gates = {dIn, dOut, dForget, dFresh};
  storeGates(op.getProjectedGradient(), gates, time, item);
  leave(gates, item);
}

void RecurrenceGradientKernel::linearGru(Value time, const Item &item) {
  Value update = keptValue(0, item), reset = keptValue(1, item),
        fresh = keptValue(2, item), share = keptValue(3, item),
        before = keptValue(5, item), state = ofState(item);
  Value dUpdate = values.mul(values.mul(state, values.sub(before, fresh)),
                             ofSigmoid(update));
  Value dFresh =
      values.mul(values.mul(state, lessThanOne(update)), ofTanh(fresh));
  Value dReset = values.mul(values.mul(dFresh, share), ofSigmoid(reset));
  store(values.mul(state, update), past, item.slot);
  storeGates(op.getProjectedGradient(), {dUpdate, dReset, dFresh}, time, item);
  SmallVector<Value> recurrent = {dUpdate, dReset, values.mul(dFresh, reset)};
  storeGates(op.getOtherGradient(), recurrent, time, item);
  leave(recurrent, item);
}

/// Before the second GEMM: computes the gradient of gate h, and replaces the
/// incoming gradient by that of the state.
void RecurrenceGradientKernel::freshGru(const Item &item) {
  Value update = keptValue(0, item), fresh = keptValue(2, item),
        state = ofState(item);
  store(state, past, item.slot);
  leave({values.mul(values.mul(state, lessThanOne(update)), ofTanh(fresh))},
        item);
}

void RecurrenceGradientKernel::finishGru(Value time, const Item &item) {
  Value update = keptValue(0, item), reset = keptValue(1, item),
        fresh = keptValue(2, item), before = keptValue(4, item),
        state = load(past, item.slot), let = sumOf(0, item);
  Value dFresh = load(left, {item.slot, math.constant(0)});
  Value dUpdate = values.mul(values.mul(state, values.sub(before, fresh)),
                             ofSigmoid(update));
  Value dReset = values.mul(values.mul(let, before), ofSigmoid(reset));
  store(values.add(values.mul(state, update), values.mul(let, reset)), past,
        item.slot);
  storeGates(op.getProjectedGradient(), {dUpdate, dReset, dFresh}, time, item);
  leave({dUpdate, dReset}, item);
}

void RecurrenceGradientKernel::rnn(Value time, const Item &item) {
  Value gate = values.mul(ofState(item), ofTanh(keptValue(0, item)));
  store(values.constant(f32, 0), past, item.slot);
  storeGates(op.getProjectedGradient(), {gate}, time, item);
  leave({gate}, item);
}

void RecurrenceGradientKernel::emitCell(size_t product, Value time,
                                        const Item &item) {
  switch (plan.shape.cell) {
  case RecurrentCell::lstm:
    return lstm(time, item);
  case RecurrentCell::gru:
    return product == 0 ? freshGru(item) : finishGru(time, item);
  case RecurrentCell::linear_gru:
    return linearGru(time, item);
  case RecurrentCell::rnn:
    return rnn(time, item);
  }
}
