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
                             : orElse(
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
