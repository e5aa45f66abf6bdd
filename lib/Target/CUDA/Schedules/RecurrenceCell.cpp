//===- RecurrenceCell.cpp - recurrent cells -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas of mpc-decompose (DecomposeRecurrent.cpp), with the same order of
// additions, in f32.
//
//===----------------------------------------------------------------------===//

#include "RecurrenceKernel.h"

using namespace mlir;
using namespace mpc;

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
