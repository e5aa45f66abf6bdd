//===- RecurrenceKernel.cpp - forward pass of a recurrent layer -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loop over time steps. A step consists of the GEMM on the tile of states, a
// barrier, the cell, and the exchange of states between blocks. The input's
// gates are loaded before the GEMM, to hide memory latency.
//
//===----------------------------------------------------------------------===//

#include "RecurrenceKernel.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

void RecurrenceKernel::makeStates() {
  hidden = perItem("hidden");
  if (steps.cell == RecurrentCell::lstm)
    cell = perItem("cell");
  if (steps.cell == RecurrentCell::gru)
    update = perItem("update");
  gates = perItem("gates", plan.shape.gates());
}

void RecurrenceKernel::loadInitialStates() {
  // Padding of rows and depth stays zero.
  clearTile();
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    store(element(steps.initialH, at), hidden, item.slot);
    if (cell)
      store(element(steps.initialC, at), cell, item.slot);
  });
  kernel.barrier();
  if (steps.initialH)
    takeStates(steps.initialH);
}

void RecurrenceKernel::storeFinalStates() {
  eachItem([&](const Item &item) {
    SmallVector<Value> at = {direction, item.row, item.unit};
    storeResult(steps.finalH, load(hidden, item.slot), at);
    if (cell)
      storeResult(steps.finalC, load(cell, item.slot), at);
  });
}

void RecurrenceKernel::loadGates(Value time) {
  int64_t count = plan.shape.gates();
  eachItem([&](const Item &item) {
    for (int64_t gate = 0; gate < count; ++gate)
      store(ofStep(steps.projected, time, count, gate, item), gates,
            {item.slot, math.constant(gate)});
  });
}

void RecurrenceKernel::emitStep(Value step) {
  int64_t last = plan.shape.steps - 1;
  Value time = timeOf(step);
  shown(time, "time");
  loadGates(time);
  for (size_t product = 0; product < products.size(); ++product) {
    bool isLast = product + 1 == products.size();
    Value copy = copyOf(product, step);
    multiply(product);
    kernel.barrier();
    Value goesOn = isLast && last > 0 ? math.less(step, last) : Value();
    eachItem([&](const Item &item) { emitCell(product, time, item); });
    if (isLast && last == 0)
      continue;
    kernel.within(goesOn, [&] {
      eachItem([&](const Item &item) {
        Value state = load(hidden, item.slot);
        if (!isLast)
          state = values.mul(load(gates, {item.slot, math.constant(1)}), state);
        handOver(state, item, /*part=*/0, copy);
      });
      receiveStates((product + 1) % products.size(), copy);
    });
  }
}

LogicalResult RecurrenceKernel::emit() {
  placeBlock();
  makeMemory();
  makeStates();
  if (failed(loadWeights()))
    return failure();
  loadInitialStates();
  if (plan.keepsFragments && plan.usesMatrixUnits)
    holdFragments();
  math.loop(plan.shape.steps, [&](Value step) {
    emitStep(plan.shape.steps > 1 ? kernel.named(step, "step") : step);
  });
  storeFinalStates();
  return success(isRead && areStored);
}

//===----------------------------------------------------------------------===//
// Cells
//
// Formulas of mpc-decompose (DecomposeRecurrent.cpp), with the same order of
// additions, in f32.
//===----------------------------------------------------------------------===//

Value RecurrenceKernel::gateInput(int64_t gate, const Item &item) {
  return load(gates, {item.slot, math.constant(gate)});
}

Value RecurrenceKernel::gateSum(int64_t gate, const Item &item) {
  Value sum = values.add(sumOf(gate, item), gateInput(gate, item));
  return steps.bias ? values.add(sum, ofGate(steps.bias, gate, item)) : sum;
}

Value RecurrenceKernel::lstm(const Item &item) {
  auto look = [&](Value sum, Value from, int64_t number) {
    if (!steps.peephole)
      return sum;
    return values.add(sum,
                      values.mul(from, ofGate(steps.peephole, number, item)));
  };
  Value in = gateSum(0, item), out = gateSum(1, item),
        forget = gateSum(2, item), fresh = gateSum(3, item);
  Value before = load(cell, item.slot);
  forget = values.sigmoid(look(forget, before, 2));
  Value left = values.mul(forget, before);
  in = values.sigmoid(look(in, before, 0));
  fresh = values.tanh(fresh);
  Value now = shown(values.add(left, values.mul(in, fresh)), "cell_state");
  store(now, cell, item.slot);
  out = values.sigmoid(look(out, now, 1));
  kept = {in, out, forget, fresh, now};
  return values.mul(out, values.tanh(now));
}

Value RecurrenceKernel::mixed(Value weight, Value fresh, Value state) {
  Value rest = values.sub(values.constant(f32, 1), weight);
  return values.add(values.mul(rest, fresh), values.mul(weight, state));
}

Value RecurrenceKernel::linearGru(const Item &item) {
  auto sum = [&](int64_t number) {
    Value sum = sumOf(number, item);
    return steps.bias ? values.add(sum, ofGate(steps.bias, number, item)) : sum;
  };
  Value weight = values.sigmoid(values.add(sum(0), gateInput(0, item)));
  Value reset = values.sigmoid(values.add(sum(1), gateInput(1, item)));
  Value share = sum(2);
  Value fresh =
      values.tanh(values.add(values.mul(reset, share), gateInput(2, item)));
  kept = {weight, reset, fresh, share};
  return mixed(weight, fresh, load(hidden, item.slot));
}

/// After a gru's first GEMM: stores the update gate for the second one, and
/// replaces the reset gate's input by the gate.
void RecurrenceKernel::resetGru(const Item &item) {
  store(values.sigmoid(gateSum(0, item)), update, item.slot);
  store(values.sigmoid(gateSum(1, item)), gates, {item.slot, math.constant(1)});
}

Value RecurrenceKernel::finishGru(const Item &item) {
  Value fresh = values.add(sumOf(0, item), gateInput(2, item));
  if (steps.bias)
    fresh = values.add(fresh, ofGate(steps.bias, 2, item));
  fresh = values.tanh(fresh);
  Value weight = load(update, item.slot);
  kept = {weight, gateInput(1, item), fresh};
  return mixed(weight, fresh, load(hidden, item.slot));
}

Value RecurrenceKernel::rnn(const Item &item) {
  Value sum = values.add(sumOf(0, item), gateInput(0, item));
  if (steps.bias)
    sum = values.add(sum, ofGate(steps.bias, 0, item));
  kept.clear();
  return values.tanh(sum);
}

void RecurrenceKernel::emitCell(size_t product, Value time, const Item &item) {
  Value state;
  switch (plan.shape.cell) {
  case RecurrentCell::lstm:
    state = lstm(item);
    break;
  case RecurrentCell::gru:
    if (product == 0)
      return resetGru(item);
    state = finishGru(item);
    break;
  case RecurrentCell::linear_gru:
    state = linearGru(item);
    break;
  case RecurrentCell::rnn:
    state = rnn(item);
    break;
  }
  shown(state, "state");
  store(state, hidden, item.slot);
  storeResult(steps.result, state, {time, direction, item.row, item.unit});
  if (!isStored(steps.kept))
    return;
  // An lstm's cell state is already the last stored value.
  if (plan.shape.cell != RecurrentCell::lstm)
    kept.push_back(state);
  for (auto [number, value] : llvm::enumerate(kept))
    storeStep(steps.kept, value, time, int64_t(kept.size()), int64_t(number),
              item);
}
