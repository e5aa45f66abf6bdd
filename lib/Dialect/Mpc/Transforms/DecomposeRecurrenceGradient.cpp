//===- DecomposeRecurrenceGradient.cpp - unroll recurrence_gradient -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backpropagation through time: one GEMM with the weights and the elementwise
// ops of the cell per step, from the last time step to the first. Cotangents
// have the state's type and are rounded to the weights' type for the GEMM.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Unrolls one direction. Values of a step are [batch, hidden].
class BackwardUnroller {
public:
  BackwardUnroller(OpEmitter &emit, RecurrenceGradientOp op, int64_t direction)
      : emit(emit), op(op), direction(direction), cell(op.getCell()),
        wide(getElementTypeOrSelf(op.getKept())),
        narrow(getElementTypeOrSelf(op.getRecurrence())), batch(op.getBatch()),
        hidden(op.getHidden()), recurrence(part(op.getRecurrence())) {
    if (op.getPeephole())
      peephole = part(op.getPeephole());
    state = op.getFinalHGradient() ? part(op.getFinalHGradient()) : zeros();
    if (cell == RecurrentCell::lstm)
      cellState =
          op.getFinalCGradient() ? part(op.getFinalCGradient()) : zeros();
  }

  /// Emits the gradient of the step at `time`, whose predecessor is `previous`;
  /// the first step has none.
  void step(int64_t time, std::optional<int64_t> previous);

  OpEmitter &emit;
  RecurrenceGradientOp op;
  int64_t direction;
  RecurrentCell cell;
  Type wide, narrow;
  int64_t batch, hidden;
  /// Cotangents of the previous state and of all gates.
  Value state, cellState, gates, recurrentGates;

private:
  Value zeros() { return emit.splat({batch, hidden}, wide, 0.0); }
  /// Slice `direction` of dimension 0, without that dimension.
  Value part(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return emit.reshape(emit.sliceAxis(value, 0, direction, 1),
                        shape.drop_front());
  }
  /// Saved activation `index` of the step at `time`.
  Value keptAt(int64_t time, int64_t index) {
    int64_t first = (direction * op.getKeptValues() + index) * hidden;
    return emit.reshape(
        emit.slice(op.getKept(), {time, 0, first}, {1, batch, hidden}),
        {batch, hidden});
  }
  Value add(Value x, Value y) { return emit.create<AddOp>(x.getType(), x, y); }
  Value mul(Value x, Value y) { return emit.create<MulOp>(x.getType(), x, y); }
  Value sub(Value x, Value y) { return emit.create<SubOp>(x.getType(), x, y); }
  Value lessThanOne(Value x) {
    return emit.create<SubOp>(x.getType(), emit.splat({1}, wide, 1.0), x);
  }
  Value ofSigmoid(Value x) { return mul(x, lessThanOne(x)); }
  Value ofTanh(Value x) {
    return mul(lessThanOne(x), add(x, emit.splat({1}, wide, 1.0)));
  }
  /// GEMM of `values` [batch, count * hidden] and the weights of gates `first`
  /// and up.
  Value product(Value values, int64_t first) {
    int64_t rows = shapeOf(values)[1];
    return emit.create<MatmulOp>(
        RankedTensorType::get({batch, hidden}, wide), emit.cast(values, narrow),
        emit.sliceAxis(recurrence, 0, first * hidden, rows),
        /*transpose_lhs=*/false, /*transpose_rhs=*/false, TypeAttr(),
        ComputeMode::native, PackedAttr());
  }

  void lstm(int64_t time, Value before);
  void gru(int64_t time, Value before);
  void linearGru(int64_t time, Value before);

  Value recurrence, peephole;
};

void BackwardUnroller::lstm(int64_t time, Value before) {
  Value in = keptAt(time, 0), out = keptAt(time, 1), forget = keptAt(time, 2),
        fresh = keptAt(time, 3), now = keptAt(time, 4);
  auto look = [&](Value to, Value gate, int64_t index) {
    if (!peephole)
      return to;
    return add(to,
               mul(gate, emit.sliceAxis(peephole, 0, index * hidden, hidden)));
  };
  Value shown = emit.create<TanhOp>(now.getType(), now);
  Value dOut = mul(mul(state, shown), ofSigmoid(out));
  Value dNow =
      look(add(cellState, mul(mul(state, out), ofTanh(shown))), dOut, 1);
  Value dIn = mul(mul(dNow, fresh), ofSigmoid(in)),
        dForget = mul(mul(dNow, before), ofSigmoid(forget)),
        dFresh = mul(mul(dNow, in), ofTanh(fresh));
  cellState = look(look(mul(dNow, forget), dIn, 0), dForget, 2);
  gates = emit.concat({dIn, dOut, dForget, dFresh}, 1);
  state = product(gates, 0);
}

void BackwardUnroller::linearGru(int64_t time, Value before) {
  Value update = keptAt(time, 0), reset = keptAt(time, 1),
        fresh = keptAt(time, 2), share = keptAt(time, 3);
  Value dUpdate = mul(mul(state, sub(before, fresh)), ofSigmoid(update)),
        dFresh = mul(mul(state, lessThanOne(update)), ofTanh(fresh)),
        dReset = mul(mul(dFresh, share), ofSigmoid(reset));
  gates = emit.concat({dUpdate, dReset, dFresh}, 1);
  recurrentGates = emit.concat({dUpdate, dReset, mul(dFresh, reset)}, 1);
  state = add(product(recurrentGates, 0), mul(state, update));
}

void BackwardUnroller::gru(int64_t time, Value before) {
  Value update = keptAt(time, 0), reset = keptAt(time, 1),
        fresh = keptAt(time, 2);
  Value dFresh = mul(mul(state, lessThanOne(update)), ofTanh(fresh));
  Value dKept = product(dFresh, 2);
  Value dUpdate = mul(mul(state, sub(before, fresh)), ofSigmoid(update)),
        dReset = mul(mul(dKept, before), ofSigmoid(reset));
  gates = emit.concat({dUpdate, dReset, dFresh}, 1);
  Value rest = add(mul(state, update), mul(dKept, reset));
  state = add(product(emit.concat({dUpdate, dReset}, 1), 0), rest);
}

void BackwardUnroller::step(int64_t time, std::optional<int64_t> previous) {
  Value before;
  if (previous)
    before = keptAt(*previous, op.getKeptValues() - 1);
  else
    before = op.getInitial() ? part(op.getInitial()) : zeros();
  if (Value sequence = op.getResultGradient())
    state =
        add(state, emit.reshape(emit.slice(sequence, {time, direction, 0, 0},
                                           {1, 1, batch, hidden}),
                                {batch, hidden}));
  switch (cell) {
  case RecurrentCell::lstm:
    return lstm(time, before);
  case RecurrentCell::gru:
    return gru(time, before);
  case RecurrentCell::linear_gru:
    return linearGru(time, before);
  case RecurrentCell::rnn:
    gates = mul(state, ofTanh(keptAt(time, 0)));
    state = product(gates, 0);
    return;
  }
}

} // namespace

SmallVector<Value> mpc::unrollRecurrenceGradient(OpBuilder &builder,
                                                 Operation *op) {
  auto gradient = dyn_cast<RecurrenceGradientOp>(op);
  if (!gradient || gradient.getSteps() == 0)
    return {};
  OpEmitter emit(builder, op);
  int64_t steps = gradient.getSteps(), directions = gradient.getDirections();
  SmallVector<int64_t> one = {1, gradient.getBatch(), gradient.getHidden()};
  SmallVector<Value> gates(steps * directions), recurrent(steps * directions),
      states, cells;
  for (int64_t direction = 0; direction < directions; ++direction) {
    BackwardUnroller unroller(emit, gradient, direction);
    bool backwards = gradient.getDirection() == RecurrentDirection::reverse ||
                     direction == 1;
    for (int64_t i = steps - 1; i >= 0; --i) {
      auto timeOf = [&](int64_t i) { return backwards ? steps - 1 - i : i; };
      unroller.step(timeOf(i),
                    i > 0 ? std::optional(timeOf(i - 1)) : std::nullopt);
      gates[timeOf(i) * directions + direction] = unroller.gates;
      recurrent[timeOf(i) * directions + direction] = unroller.recurrentGates;
    }
    states.push_back(emit.reshape(unroller.state, one));
    if (unroller.cellState)
      cells.push_back(emit.reshape(unroller.cellState, one));
  }
  auto sequence = [&](ArrayRef<Value> parts) {
    SmallVector<Value> ofSteps;
    for (int64_t time = 0; time < steps; ++time) {
      Value row = emit.concat(parts.slice(time * directions, directions), 1);
      ofSteps.push_back(
          emit.reshape(row, {1, gradient.getBatch(), shapeOf(row)[1]}));
    }
    return emit.concat(ofSteps, 0);
  };
  SmallVector<Value> results = {sequence(gates), emit.concat(states, 0)};
  if (!cells.empty())
    results.push_back(emit.concat(cells, 0));
  else if (gradient.getOtherGradient())
    results.push_back(sequence(recurrent));
  return results;
}
