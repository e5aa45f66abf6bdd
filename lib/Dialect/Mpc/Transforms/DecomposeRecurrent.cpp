//===- DecomposeRecurrent.cpp - unroll lstm, gru and rnn ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One product covers the input of all steps; each step is a product with the
// state and a cell of elementwise ops. States stay in the result's type and are
// rounded to the operands' type where a product reads them.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {

/// One direction of a recurrent op.
class Unroller {
public:
  template <typename OpTy>
  Unroller(OpEmitter &emit, OpTy op, int64_t direction)
      : emit(emit), direction(direction),
        wide(getElementTypeOrSelf(op.getResult())),
        narrow(getElementTypeOrSelf(op.getInput())),
        steps(shapeOf(op.getInput())[0]), batch(shapeOf(op.getInput())[1]),
        hidden(shapeOf(op.getRecurrence())[2]) {
    recurrence = part(op.getRecurrence());
    if (op.getBias()) {
      Value bias = part(op.getBias());
      int64_t rows = OpTy::kGates * hidden;
      inputBias = emit.sliceAxis(bias, 0, 0, rows);
      stateBias = emit.sliceAxis(bias, 0, rows, rows);
    }
    state = op.getInitialH() ? emit.cast(part(op.getInitialH()), wide)
                             : emit.splat({batch, hidden}, wide, 0.0);
    projected = matmul(op.getInput(), part(op.getWeight()));
    if (inputBias)
      projected = binary<AddOp>(projected, inputBias);
  }

  /// Entry `direction` of dimension 0.
  Value part(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return emit.reshape(emit.sliceAxis(value, 0, direction, 1),
                        shape.drop_front());
  }
  /// `lhs * rhs^T` with the sum in the wide type.
  Value matmul(Value lhs, Value rhs) {
    SmallVector<int64_t> shape(shapeOf(lhs));
    shape.back() = shapeOf(rhs)[0];
    return emit.create<MatmulOp>(
        RankedTensorType::get(shape, wide), emit.cast(lhs, narrow), rhs,
        /*transpose_lhs=*/false, /*transpose_rhs=*/true, TypeAttr(),
        ComputeMode::native, PackedAttr());
  }
  template <typename OpTy> Value unary(Value value) {
    return emit.create<OpTy>(value.getType(), value);
  }
  /// `rhs` broadcasts to `lhs`.
  template <typename OpTy> Value binary(Value lhs, Value rhs) {
    return emit.create<OpTy>(lhs.getType(), lhs, rhs);
  }
  /// The input's share of the gates at `step`: [batch, gates].
  Value inputAt(int64_t step) {
    Value row = emit.sliceAxis(projected, 0, step, 1);
    return emit.reshape(row, shapeOf(projected).drop_front());
  }
  /// `count` gates of [batch, gates * hidden] from `first` on.
  Value gates(Value value, int64_t first, int64_t count = 1) {
    return emit.sliceAxis(value, 1, first * hidden, count * hidden);
  }
  /// Rows `first` and up of weights or biases.
  Value rows(Value value, int64_t first, int64_t count) {
    return emit.sliceAxis(value, 0, first * hidden, count * hidden);
  }

  /// The state that follows from `input` (this step's share of the gates).
  void step(LstmOp op, Value input);
  void step(GruOp op, Value input);
  void step(RnnOp op, Value input);

  OpEmitter &emit;
  int64_t direction;
  Type wide, narrow;
  int64_t steps, batch, hidden;
  Value recurrence, inputBias, stateBias, projected, state, cell;
};

void Unroller::step(LstmOp op, Value input) {
  Value sum = binary<AddOp>(matmul(state, recurrence), input);
  if (stateBias)
    sum = binary<AddOp>(sum, stateBias);
  Value in = gates(sum, 0), out = gates(sum, 1), forget = gates(sum, 2),
        fresh = gates(sum, 3);
  Value peephole =
      op.getPeephole() ? emit.cast(part(op.getPeephole()), wide) : Value();
  auto look = [&](Value gate, Value from, int64_t index) {
    if (!peephole)
      return gate;
    return binary<AddOp>(gate, binary<MulOp>(from, rows(peephole, index, 1)));
  };
  Value kept = binary<MulOp>(unary<SigmoidOp>(look(forget, cell, 2)), cell);
  Value added =
      binary<MulOp>(unary<SigmoidOp>(look(in, cell, 0)), unary<TanhOp>(fresh));
  cell = binary<AddOp>(kept, added);
  state =
      binary<MulOp>(unary<SigmoidOp>(look(out, cell, 1)), unary<TanhOp>(cell));
}

void Unroller::step(GruOp op, Value input) {
  Value update, reset, fresh;
  if (op.getLinearBeforeReset()) {
    Value sum = matmul(state, recurrence);
    if (stateBias)
      sum = binary<AddOp>(sum, stateBias);
    update = binary<AddOp>(gates(sum, 0), gates(input, 0));
    reset = binary<AddOp>(gates(sum, 1), gates(input, 1));
    fresh = binary<AddOp>(binary<MulOp>(unary<SigmoidOp>(reset), gates(sum, 2)),
                          gates(input, 2));
  } else {
    Value sum = matmul(state, rows(recurrence, 0, 2));
    sum = binary<AddOp>(sum, gates(input, 0, 2));
    if (stateBias)
      sum = binary<AddOp>(sum, rows(stateBias, 0, 2));
    update = gates(sum, 0);
    reset = gates(sum, 1);
    Value kept = binary<MulOp>(unary<SigmoidOp>(reset), state);
    fresh =
        binary<AddOp>(matmul(kept, rows(recurrence, 2, 1)), gates(input, 2));
    if (stateBias)
      fresh = binary<AddOp>(fresh, rows(stateBias, 2, 1));
  }
  Value weight = unary<SigmoidOp>(update), candidate = unary<TanhOp>(fresh);
  Value rest =
      emit.create<SubOp>(weight.getType(), emit.splat({1}, wide, 1.0), weight);
  state = binary<AddOp>(binary<MulOp>(rest, candidate),
                        binary<MulOp>(weight, state));
}

void Unroller::step(RnnOp op, Value input) {
  Value sum = binary<AddOp>(matmul(state, recurrence), input);
  if (stateBias)
    sum = binary<AddOp>(sum, stateBias);
  state = unary<TanhOp>(sum);
}

template <typename OpTy>
SmallVector<Value> unroll(OpBuilder &builder, OpTy op) {
  OpEmitter emit(builder, op);
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  int64_t steps = shape[0], directions = shape[1];
  SmallVector<int64_t> one = {1, shape[2], shape[3]};
  SmallVector<Value> rows(steps * directions), states, cells;
  for (int64_t direction = 0; direction < directions; ++direction) {
    Unroller unroller(emit, op, direction);
    if constexpr (std::is_same_v<OpTy, LstmOp>)
      unroller.cell =
          op.getInitialC()
              ? emit.cast(unroller.part(op.getInitialC()), unroller.wide)
              : emit.splat({shape[2], shape[3]}, unroller.wide, 0.0);
    bool backwards =
        op.getDirection() == RecurrentDirection::reverse || direction == 1;
    for (int64_t i = 0; i < steps; ++i) {
      int64_t time = backwards ? steps - 1 - i : i;
      unroller.step(op, unroller.inputAt(time));
      rows[time * directions + direction] = emit.reshape(unroller.state, one);
    }
    states.push_back(emit.reshape(unroller.state, one));
    if (unroller.cell)
      cells.push_back(emit.reshape(unroller.cell, one));
  }
  SmallVector<Value> results = {emit.reshape(emit.concat(rows, 0), shape),
                                emit.concat(states, 0)};
  if (!cells.empty())
    results.push_back(emit.concat(cells, 0));
  return results;
}

} // namespace

SmallVector<Value> mpc::unrollRecurrent(OpBuilder &builder, Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (shape[0] == 0 || shape[1] == 0)
    return {};
  return TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case<LstmOp, GruOp, RnnOp>(
          [&](auto recurrent) { return unroll(builder, recurrent); })
      .Default([](Operation *) { return SmallVector<Value>(); });
}
