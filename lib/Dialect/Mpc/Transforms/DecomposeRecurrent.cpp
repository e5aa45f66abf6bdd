//===- DecomposeRecurrent.cpp - unroll lstm, gru and rnn ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One GEMM projects the input of all steps; each step is a GEMM with the state
// and the elementwise ops of the cell. States have the result's type and are
// rounded to the operands' type for the GEMM.
//
//===----------------------------------------------------------------------===//

#include "Decompose.h"
#include "OpEmitter.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Unrolls one direction of a recurrent op.
class Unroller {
public:
  /// For `lstm`, `gru` and `rnn`, whose input is projected first.
  template <typename OpTy>
  Unroller(OpEmitter &emit, OpTy op, RecurrentCell cellKind, int64_t direction)
      : emit(emit), direction(direction), cellKind(cellKind),
        wide(getElementTypeOrSelf(op.getResult())),
        narrow(getElementTypeOrSelf(op.getInput())),
        batch(shapeOf(op.getInput())[1]),
        hidden(shapeOf(op.getRecurrence())[2]) {
    recurrence = part(op.getRecurrence());
    Value inputBias;
    if (op.getBias()) {
      Value bias = part(op.getBias());
      int64_t rows = OpTy::kGates * hidden;
      inputBias = emit.sliceAxis(bias, 0, 0, rows);
      stateBias = emit.sliceAxis(bias, 0, rows, rows);
    }
    Value initialC;
    if constexpr (std::is_same_v<OpTy, LstmOp>) {
      initialC = op.getInitialC();
      peephole = op.getPeephole();
    }
    begin(op.getInitialH(), initialC);
    projected = matmul(op.getInput(), part(op.getWeight()));
    if (inputBias)
      projected = binary<AddOp>(projected, inputBias);
  }
  Unroller(OpEmitter &emit, const RecurrenceSteps &steps, int64_t direction)
      : emit(emit), direction(direction), cellKind(steps.cell),
        wide(getElementTypeOrSelf(steps.projected)),
        narrow(getElementTypeOrSelf(steps.recurrence)), batch(steps.batch()),
        hidden(steps.hidden()) {
    recurrence = part(steps.recurrence);
    if (steps.bias)
      stateBias = part(steps.bias);
    peephole = steps.peephole;
    begin(steps.initialH, steps.initialC);
    int64_t width = gatesOf(cellKind) * hidden;
    projected = emit.sliceAxis(steps.projected, 2, direction * width, width);
  }

  /// Emits the step at `time`; updates `state` and `cell`.
  void step(int64_t time);

  OpEmitter &emit;
  int64_t direction;
  RecurrentCell cellKind;
  Type wide, narrow;
  int64_t batch, hidden;
  Value state, cell;
  /// Activations saved for the gradient, [batch, hidden] each.
  SmallVector<Value> kept;

private:
  void begin(Value initialH, Value initialC) {
    auto initial = [&](Value given) {
      return given ? emit.cast(part(given), wide)
                   : emit.splat({batch, hidden}, wide, 0.0);
    };
    state = initial(initialH);
    if (cellKind == RecurrentCell::lstm)
      cell = initial(initialC);
    if (peephole)
      peephole = emit.cast(part(peephole), wide);
  }
  /// Slice `direction` of dimension 0, without that dimension.
  Value part(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return emit.reshape(emit.sliceAxis(value, 0, direction, 1),
                        shape.drop_front());
  }
  /// `lhs * rhs^T`, accumulated in the wide type.
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
  /// Elementwise op whose `rhs` broadcasts to `lhs`.
  template <typename OpTy> Value binary(Value lhs, Value rhs) {
    return emit.create<OpTy>(lhs.getType(), lhs, rhs);
  }
  /// Projected input of the gates at `time`: [batch, gates].
  Value inputAt(int64_t time) {
    Value row = emit.sliceAxis(projected, 0, time, 1);
    return emit.reshape(row, shapeOf(projected).drop_front());
  }
  /// Gates [first, first + count) of [batch, gates * hidden].
  Value gates(Value value, int64_t first, int64_t count = 1) {
    return emit.sliceAxis(value, 1, first * hidden, count * hidden);
  }
  /// Rows of gates [first, first + count) of weights or biases.
  Value rows(Value value, int64_t first, int64_t count) {
    return emit.sliceAxis(value, 0, first * hidden, count * hidden);
  }

  void lstm(Value input);
  void linearGru(Value input);
  void gru(Value input);
  void finishGru(Value update, Value fresh);
  void rnn(Value input);

  Value recurrence, stateBias, projected, peephole;
};

void Unroller::lstm(Value input) {
  Value sum = binary<AddOp>(matmul(state, recurrence), input);
  if (stateBias)
    sum = binary<AddOp>(sum, stateBias);
  Value in = gates(sum, 0), out = gates(sum, 1), forget = gates(sum, 2),
        fresh = gates(sum, 3);
  auto look = [&](Value gate, Value from, int64_t index) {
    if (!peephole)
      return gate;
    return binary<AddOp>(gate, binary<MulOp>(from, rows(peephole, index, 1)));
  };
  forget = unary<SigmoidOp>(look(forget, cell, 2));
  Value left = binary<MulOp>(forget, cell);
  in = unary<SigmoidOp>(look(in, cell, 0));
  fresh = unary<TanhOp>(fresh);
  cell = binary<AddOp>(left, binary<MulOp>(in, fresh));
  out = unary<SigmoidOp>(look(out, cell, 1));
  state = binary<MulOp>(out, unary<TanhOp>(cell));
  kept = {in, out, forget, fresh, cell};
}

void Unroller::linearGru(Value input) {
  Value sum = matmul(state, recurrence);
  if (stateBias)
    sum = binary<AddOp>(sum, stateBias);
  Value update = binary<AddOp>(gates(sum, 0), gates(input, 0));
  Value reset = unary<SigmoidOp>(binary<AddOp>(gates(sum, 1), gates(input, 1)));
  Value share = gates(sum, 2);
  kept = {reset, share};
  finishGru(update,
            binary<AddOp>(binary<MulOp>(reset, share), gates(input, 2)));
}

void Unroller::gru(Value input) {
  Value sum = matmul(state, rows(recurrence, 0, 2));
  sum = binary<AddOp>(sum, gates(input, 0, 2));
  if (stateBias)
    sum = binary<AddOp>(sum, rows(stateBias, 0, 2));
  Value update = gates(sum, 0), reset = unary<SigmoidOp>(gates(sum, 1));
  Value fresh =
      binary<AddOp>(matmul(binary<MulOp>(reset, state), rows(recurrence, 2, 1)),
                    gates(input, 2));
  if (stateBias)
    fresh = binary<AddOp>(fresh, rows(stateBias, 2, 1));
  kept = {reset};
  finishGru(update, fresh);
}

void Unroller::finishGru(Value update, Value fresh) {
  Value weight = unary<SigmoidOp>(update), candidate = unary<TanhOp>(fresh);
  Value rest =
      emit.create<SubOp>(weight.getType(), emit.splat({1}, wide, 1.0), weight);
  state = binary<AddOp>(binary<MulOp>(rest, candidate),
                        binary<MulOp>(weight, state));
  kept.insert(kept.begin(), weight);
  kept.insert(kept.begin() + 2, candidate);
  kept.push_back(state);
}

void Unroller::rnn(Value input) {
  Value sum = binary<AddOp>(matmul(state, recurrence), input);
  if (stateBias)
    sum = binary<AddOp>(sum, stateBias);
  state = unary<TanhOp>(sum);
  kept = {state};
}

void Unroller::step(int64_t time) {
  Value input = inputAt(time);
  switch (cellKind) {
  case RecurrentCell::lstm:
    return lstm(input);
  case RecurrentCell::gru:
    return gru(input);
  case RecurrentCell::linear_gru:
    return linearGru(input);
  case RecurrentCell::rnn:
    return rnn(input);
  }
}

/// Results of an unrolled op.
struct UnrolledResults {
  Value result, finalH, finalC, kept;
};

/// Unrolls all steps, with one unroller per direction.
UnrolledResults unroll(OpEmitter &emit, ArrayRef<int64_t> shape,
                       RecurrentDirection order, bool keeps,
                       llvm::function_ref<Unroller(int64_t)> ofDirection) {
  int64_t steps = shape[0], directions = shape[1];
  SmallVector<int64_t> one = {1, shape[2], shape[3]};
  SmallVector<Value> rows(steps * directions), kept(steps * directions), states,
      cells;
  for (int64_t direction = 0; direction < directions; ++direction) {
    Unroller unroller = ofDirection(direction);
    bool backwards = order == RecurrentDirection::reverse || direction == 1;
    for (int64_t i = 0; i < steps; ++i) {
      int64_t time = backwards ? steps - 1 - i : i;
      unroller.step(time);
      rows[time * directions + direction] = emit.reshape(unroller.state, one);
      if (keeps)
        kept[time * directions + direction] = emit.concat(unroller.kept, 1);
    }
    states.push_back(emit.reshape(unroller.state, one));
    if (unroller.cell)
      cells.push_back(emit.reshape(unroller.cell, one));
  }
  UnrolledResults all = {emit.reshape(emit.concat(rows, 0), shape),
                         emit.concat(states, 0),
                         cells.empty() ? Value() : emit.concat(cells, 0),
                         {}};
  if (!keeps)
    return all;
  SmallVector<Value> ofSteps;
  for (int64_t time = 0; time < steps; ++time) {
    ArrayRef<Value> parts = ArrayRef(kept).slice(time * directions, directions);
    Value row = directions > 1 ? emit.concat(parts, 1) : parts.front();
    ofSteps.push_back(emit.reshape(row, {1, shape[2], shapeOf(row)[1]}));
  }
  all.kept = emit.concat(ofSteps, 0);
  return all;
}

template <typename OpTy>
SmallVector<Value> unroll(OpBuilder &builder, OpTy op, RecurrentCell cell) {
  OpEmitter emit(builder, op);
  UnrolledResults all = unroll(emit, shapeOf(op.getResult()), op.getDirection(),
                               /*keeps=*/false, [&](int64_t direction) {
                                 return Unroller(emit, op, cell, direction);
                               });
  SmallVector<Value> results = {all.result, all.finalH};
  if (all.finalC)
    results.push_back(all.finalC);
  return results;
}

} // namespace

SmallVector<Value> mpc::unrollRecurrent(OpBuilder &builder, Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  if (shape[0] == 0 || shape[1] == 0)
    return {};
  return TypeSwitch<Operation *, SmallVector<Value>>(op)
      .Case([&](LstmOp lstm) {
        return unroll(builder, lstm, RecurrentCell::lstm);
      })
      .Case([&](GruOp gru) {
        return unroll(builder, gru,
                      gru.getLinearBeforeReset() ? RecurrentCell::linear_gru
                                                 : RecurrentCell::gru);
      })
      .Case([&](RnnOp rnn) { return unroll(builder, rnn, RecurrentCell::rnn); })
      .Default([](Operation *) { return SmallVector<Value>(); });
}

SmallVector<Value> mpc::unrollRecurrence(OpBuilder &builder, Operation *op) {
  std::optional<RecurrenceSteps> steps = RecurrenceSteps::of(op);
  if (!steps || steps->count() == 0)
    return {};
  OpEmitter emit(builder, op);
  UnrolledResults all = unroll(
      emit, shapeOf(steps->result), steps->direction, bool(steps->kept),
      [&](int64_t direction) { return Unroller(emit, *steps, direction); });
  return llvm::map_to_vector(op->getResults(), [&](Value result) {
    return result == steps->result   ? all.result
           : result == steps->finalH ? all.finalH
           : result == steps->finalC ? all.finalC
                                     : all.kept;
  });
}
