//===- RecurrenceCell.cpp - what a thread makes of the gates --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The formulas of mpc-decompose (DecomposeRecurrent.cpp), sums in the same
// order, in f32.
//
//===----------------------------------------------------------------------===//

#include "RecurrenceKernel.h"

using namespace mlir;
using namespace mpc;

Value RecurrenceKernel::sumOf(int64_t gate, const Item &item) {
  Value column = math.add(item.blockUnit, gate * plan.units);
  Value sum;
  for (int64_t split = 0; split < plan.splits; ++split) {
    Value part = load(sums, {math.constant(split), item.blockRow, column});
    sum = sum ? values.add(sum, part) : part;
  }
  return sum;
}

Value RecurrenceKernel::gateInput(int64_t gate, const Item &item) {
  return load(gates, {item.slot, math.constant(gate)});
}

Value RecurrenceKernel::lstm(const Item &item) {
  auto gate = [&](int64_t number) {
    Value sum = values.add(sumOf(number, item), gateInput(number, item));
    return op.getBias() ? values.add(sum, ofGate(op.getBias(), number, item))
                        : sum;
  };
  auto look = [&](Value sum, Value from, int64_t number) {
    if (!op.getPeephole())
      return sum;
    return values.add(sum,
                      values.mul(from, ofGate(op.getPeephole(), number, item)));
  };
  Value in = gate(0), out = gate(1), forget = gate(2), fresh = gate(3);
  Value before = load(cell, item.slot);
  Value kept = values.mul(values.sigmoid(look(forget, before, 2)), before);
  Value added =
      values.mul(values.sigmoid(look(in, before, 0)), values.tanh(fresh));
  Value now = shown(values.add(kept, added), "cell_state");
  store(now, cell, item.slot);
  return values.mul(values.sigmoid(look(out, now, 1)), values.tanh(now));
}

Value RecurrenceKernel::mixed(Value weight, Value fresh, Value state) {
  Value rest = values.sub(values.constant(f32, 1), weight);
  return values.add(values.mul(rest, values.tanh(fresh)),
                    values.mul(weight, state));
}

Value RecurrenceKernel::linearGru(const Item &item) {
  auto sum = [&](int64_t number) {
    Value sum = sumOf(number, item);
    return op.getBias() ? values.add(sum, ofGate(op.getBias(), number, item))
                        : sum;
  };
  Value weight = values.sigmoid(values.add(sum(0), gateInput(0, item)));
  Value reset = values.sigmoid(values.add(sum(1), gateInput(1, item)));
  Value fresh = values.add(values.mul(reset, sum(2)), gateInput(2, item));
  return mixed(weight, fresh, load(hidden, item.slot));
}

/// The first product of a gru: the update gate is kept for the second, and the
/// reset gate takes the place of its input.
void RecurrenceKernel::resetGru(const Item &item) {
  auto gate = [&](int64_t number) {
    Value sum = values.add(sumOf(number, item), gateInput(number, item));
    return values.sigmoid(
        op.getBias() ? values.add(sum, ofGate(op.getBias(), number, item))
                     : sum);
  };
  store(gate(0), update, item.slot);
  store(gate(1), gates, {item.slot, math.constant(1)});
}

Value RecurrenceKernel::finishGru(const Item &item) {
  Value fresh = values.add(sumOf(0, item), gateInput(2, item));
  if (op.getBias())
    fresh = values.add(fresh, ofGate(op.getBias(), 2, item));
  return mixed(load(update, item.slot), fresh, load(hidden, item.slot));
}

Value RecurrenceKernel::rnn(const Item &item) {
  Value sum = values.add(sumOf(0, item), gateInput(0, item));
  if (op.getBias())
    sum = values.add(sum, ofGate(op.getBias(), 0, item));
  return values.tanh(sum);
}

LogicalResult RecurrenceKernel::emitCell(size_t product, Value time,
                                         const Item &item) {
  Value state;
  switch (plan.shape.cell) {
  case RecurrentCell::lstm:
    state = lstm(item);
    break;
  case RecurrentCell::gru:
    if (product == 0) {
      resetGru(item);
      return success();
    }
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
  if (results.front().all().empty())
    return success();
  ElementEmitter emitter = makeEmitter();
  return results.front().store(emitter, kernel.outputs, state,
                               {time, direction, item.row, item.unit}, 1);
}
