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
