//===- Recurrent.cpp - LSTM, GRU and RNN operators ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecurrentSteps.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// Operands and attributes that the three recurrent operators share.
struct Recurrence {
  Value input, weight, recurrence;
  RecurrentDirection direction = RecurrentDirection::forward;
  bool batchFirst = false;
  int64_t directions = 1;
  /// Cell variant of each direction.
  SmallVector<CellForm, 2> forms;
  /// Sequence lengths, [batch]; null if all sequences are full.
  Value lengths;
};

/// Optional operands of a recurrent operator, null if absent.
struct OptionalOperands {
  Value bias, h, c, peephole;
};

} // namespace

static Recurrence readRecurrence(NodeImport &n, RecurrentCell kind) {
  Recurrence r;
  std::string name = n.stringAttr("direction", "forward");
  std::optional<RecurrentDirection> direction =
      symbolizeRecurrentDirection(name);
  if (!direction && !n.failed())
    n.error() << "attribute 'direction' is '" << name
              << "', expected forward, reverse or bidirectional";
  r.direction = direction.value_or(RecurrentDirection::forward);
  r.directions = r.direction == RecurrentDirection::bidirectional ? 2 : 1;
  r.forms = readCellForms(n, kind, r.directions);
  r.batchFirst = n.flag("layout");
  r.input = n.in(0);
  r.weight = n.in(1);
  r.recurrence = n.in(2);
  if (n.failed())
    return r;
  if (n.rank(r.input) != 3 || n.rank(r.weight) != 3 ||
      n.rank(r.recurrence) != 3) {
    n.error() << "input, weight and recurrence are " << r.input.getType()
              << ", " << r.weight.getType() << " and " << r.recurrence.getType()
              << ", expected 3 dimensions each";
    return r;
  }
  int64_t hidden = n.intAttr("hidden_size", n.dim(r.recurrence, 2));
  if (hidden != n.dim(r.recurrence, 2) && !n.failed())
    n.error() << "attribute 'hidden_size' is " << hidden
              << ", but the recurrence is " << r.recurrence.getType();
  if (r.batchFirst)
    r.input = n.transpose(r.input, {1, 0, 2});
  if (n.has(4))
    r.lengths = readSequenceLengths(n, n.dim(r.input, 0), n.dim(r.input, 1));
  return r;
}

/// Returns a state operand, transposed to [directions, batch, hidden].
static Value stateInput(NodeImport &n, const Recurrence &r, size_t i) {
  if (!n.has(i))
    return nullptr;
  Value state = n.in(i);
  return r.batchFirst ? n.transpose(state, {1, 0, 2}) : state;
}

/// Sets the outputs for zero steps: an empty sequence and the initial states, 0
/// if absent. `states` are in the order of the outputs after the first.
static LogicalResult finishEmpty(NodeImport &n, const Recurrence &r,
                                 ArrayRef<Value> states) {
  Type type = n.element(r.input);
  SmallVector<int64_t> state = {n.dim(r.weight, 0), n.dim(r.input, 1),
                                n.dim(r.recurrence, 2)};
  SmallVector<int64_t> all = {0, state[0], state[1], state[2]};
  for (size_t i = 0; i <= states.size(); ++i) {
    if (!n.wants(i))
      continue;
    Value value = i == 0          ? n.dense(all, {}, type)
                  : states[i - 1] ? states[i - 1]
                                  : n.broadcast(n.scalar(0, type), state);
    if (i > 0 && !n.failed() && n.shape(value) != ArrayRef<int64_t>(state))
      return n.error() << "a state is " << value.getType()
                       << ", which does not fit the other inputs";
    if (r.batchFirst)
      value = i == 0 ? n.transpose(value, {2, 0, 1, 3})
                     : n.transpose(value, {1, 0, 2});
    n.set(i, value);
  }
  return n.status();
}

/// Sets the node's outputs: the sequence [steps, directions, batch, hidden],
/// then states [directions, batch, hidden].
static LogicalResult setOutputs(NodeImport &n, const Recurrence &r,
                                ValueRange values) {
  for (auto [i, value] : llvm::enumerate(values)) {
    Value output = n.cast(value, n.element(r.input));
    if (r.batchFirst)
      output = i == 0 ? n.transpose(output, {2, 0, 1, 3})
                      : n.transpose(output, {1, 0, 2});
    n.set(i, output);
  }
  return n.status();
}

/// Creates `lstm`, `gru` or `rnn`.
static Operation *createLayer(NodeImport &n, RecurrentCell kind,
                              RecurrentDirection direction,
                              ArrayRef<Value> required,
                              const OptionalOperands &given) {
  bool isLstm = kind == RecurrentCell::lstm, isRnn = kind == RecurrentCell::rnn;
  SmallVector<Value> optional = {given.bias, given.h};
  if (isLstm)
    optional.append({given.c, given.peephole});
  SmallVector<Value> operands(required);
  SmallVector<int32_t> segments(required.size(), 1);
  for (Value value : optional) {
    segments.push_back(value ? 1 : 0);
    if (value)
      operands.push_back(value);
  }
  SmallVector<NamedAttribute> attributes = {
      n.attr("operandSegmentSizes", n.builder.getDenseI32ArrayAttr(segments)),
      n.attr("direction",
             RecurrentDirectionAttr::get(n.builder.getContext(), direction))};
  if (kind == RecurrentCell::linear_gru)
    attributes.push_back(n.unit("linear_before_reset"));
  return n.inferred(isLstm  ? LstmOp::getOperationName()
                    : isRnn ? RnnOp::getOperationName()
                            : GruOp::getOperationName(),
                    operands, attributes);
}

namespace {

/// Results of one direction, with an extent of 1 for directions.
struct DirectionResults {
  Value sequence, h, c;
};

/// Imports one direction of a layer that no single op supports.
class DirectionImport {
public:
  DirectionImport(NodeImport &n, const Recurrence &r,
                  const OptionalOperands &given, int64_t index)
      : n(n), r(r), form(r.forms[index]), index(index),
        steps(n.dim(r.input, 0)), batch(n.dim(r.input, 1)),
        hidden(n.dim(r.recurrence, 2)),
        isReverse(index == 1 || r.direction == RecurrentDirection::reverse),
        wide(n.wideType(n.element(r.input))), weight(part(r.weight)),
        recurrence(part(r.recurrence)),
        given{part(given.bias), part(given.h), part(given.c),
              part(given.peephole)} {}

  /// Variable sequence lengths with the ops for full sequences: a reverse
  /// direction reads reversed sequences, and values past the end are masked.
  DirectionResults padded();
  /// Unrolled: one matmul and a few elementwise ops per step.
  DirectionResults unrolled();

private:
  /// Returns this direction's slice of an operand; null if that is null.
  Value part(Value value) {
    return value ? n.sliceAxis(value, 0, index, 1) : Value();
  }
  Value reversed(Value value, int64_t batchAxis) {
    return isReverse ? reverseSequence(n, value, r.lengths, 0, batchAxis)
                     : value;
  }
  Value atRank(Value lengths, ArrayRef<int64_t> shape) {
    return n.reshape(n.cast(lengths, n.builder.getI64Type()), shape);
  }
  /// Returns a mask of the steps inside each sequence; `shape` is that of the
  /// lengths, with time first.
  Value insideOf(ArrayRef<int64_t> shape) {
    Value time =
        n.iota(steps, 0, int64_t(shape.size()), n.builder.getI64Type());
    return n.compare(ComparePredicate::lt, time, atRank(r.lengths, shape));
  }
  Value project(Value input);
  DirectionResults frozenLstm(Value input);
  Value stateAtEnd(Value sequence);

  NodeImport &n;
  const Recurrence &r;
  const CellForm &form;
  int64_t index, steps, batch, hidden;
  bool isReverse;
  Type wide;
  Value weight, recurrence;
  OptionalOperands given;
};

} // namespace

/// Returns the input projection of all gates, with both biases if they are only
/// added: [steps, batch, gates * hidden].
Value DirectionImport::project(Value input) {
  if (n.failed())
    return nullptr;
  Value sum = n.matmulWide(input, entryOf(n, weight, 0), false, true);
  if (!given.bias || n.failed())
    return sum;
  Value bias = n.cast(entryOf(n, given.bias, 0), wide);
  int64_t rows = gatesOf(form.kind) * hidden;
  Value own = n.sliceAxis(bias, 0, 0, rows),
        recurrent = n.sliceAxis(bias, 0, rows, rows);
  if (form.kind != RecurrentCell::linear_gru)
    return n.op<AddOp>({sum, n.op<AddOp>({own, recurrent})});
  // The reset gate multiplies the recurrent bias of the candidate.
  int64_t sums = 2 * hidden;
  Value both = n.op<AddOp>(
      {n.sliceAxis(own, 0, 0, sums), n.sliceAxis(recurrent, 0, 0, sums)});
  return n.op<AddOp>(
      {sum, n.concat({both, n.sliceAxis(own, 0, sums, hidden)}, 0)});
}

/// An LSTM whose cell state is frozen past the end of a sequence: infinite
/// inputs make input gates 0 and forget gates 1, whatever finite number the
/// recurrence adds.
DirectionResults DirectionImport::frozenLstm(Value input) {
  Value projected = project(input);
  SmallVector<double> gates(4 * hidden, 0.0);
  std::fill_n(gates.begin(), hidden, -INFINITY);
  std::fill_n(gates.begin() + 2 * hidden, hidden, INFINITY);
  projected = n.select(insideOf({1, batch, 1}), projected,
                       n.dense({1, 1, 4 * hidden}, gates, wide));
  auto widened = [&](Value value) {
    return value ? n.cast(value, wide) : Value();
  };
  SmallVector<Value> operands;
  SmallVector<int32_t> segments;
  for (Value value : {projected, recurrence, Value(), widened(given.h),
                      widened(given.c), widened(given.peephole)}) {
    segments.push_back(value ? 1 : 0);
    if (value)
      operands.push_back(value);
  }
  Type state = n.tensorType({1, batch, hidden}, wide);
  Operation *op = n.typed(
      RecurrenceOp::getOperationName(),
      {n.tensorType({steps, 1, batch, hidden}, wide), state, state}, operands,
      {n.attr("operandSegmentSizes", n.builder.getDenseI32ArrayAttr(segments)),
       n.attr("cell",
              RecurrentCellAttr::get(n.builder.getContext(), form.kind))});
  if (!op)
    return {};
  return {op->getResult(0), nullptr, op->getResult(2)};
}

/// Returns the hidden state after the last step of each sequence.
Value DirectionImport::stateAtEnd(Value sequence) {
  Type i64 = n.builder.getI64Type();
  Value length = atRank(r.lengths, {1, 1, batch, 1});
  Value last =
      n.op<MaxOp>({n.op<SubOp>({length, n.scalar(1, i64)}), n.scalar(0, i64)});
  Value state =
      n.reshape(n.op<GatherElementsOp>(
                    {sequence, n.broadcast(last, {1, 1, batch, hidden})},
                    n.attr("axis", 0)),
                {1, batch, hidden});
  if (n.failed())
    return nullptr;
  Type type = n.element(state);
  Value before =
      given.h ? n.cast(given.h, type) : n.splat({1, batch, hidden}, 0, type);
  Value isEmpty = n.compare(ComparePredicate::le,
                            atRank(r.lengths, {1, batch, 1}), n.scalar(0, i64));
  return n.select(isEmpty, before, state);
}

DirectionResults DirectionImport::padded() {
  Value input = reversed(r.input, 1);
  if (n.failed())
    return {};
  DirectionResults results;
  if (form.kind == RecurrentCell::lstm) {
    results = frozenLstm(input);
  } else if (Operation *op =
                 createLayer(n, form.kind, RecurrentDirection::forward,
                             {input, weight, recurrence}, given)) {
    results.sequence = op->getResult(0);
  }
  if (n.failed())
    return {};
  results.h = stateAtEnd(results.sequence);
  results.sequence =
      n.select(insideOf({1, 1, batch, 1}), reversed(results.sequence, 2),
               n.scalar(0, n.element(results.sequence)));
  return results;
}

DirectionResults DirectionImport::unrolled() {
  UnrolledDirection steps;
  steps.form = form;
  steps.reverse = isReverse;
  steps.gates = project(r.input);
  steps.lengths = r.lengths;
  auto state = [&](Value value) {
    return value ? n.cast(entryOf(n, value, 0), wide) : Value();
  };
  steps.h = state(given.h);
  steps.c = state(given.c);
  if (Value all = state(given.peephole))
    for (int64_t i = 0; i < 3; ++i)
      steps.peephole[i] = n.sliceAxis(all, 0, i * hidden, hidden);
  if (form.kind == RecurrentCell::linear_gru && given.bias)
    steps.candidateBias = n.sliceAxis(state(given.bias), 0, 5 * hidden, hidden);
  Value rows = entryOf(n, recurrence, 0);
  steps.recur = [&, rows](Value value, int64_t first, int64_t count) {
    return n.matmulWide(n.cast(value, n.element(rows)),
                        n.sliceAxis(rows, 0, first * hidden, count * hidden),
                        false, true);
  };
  Value sequence = steps.run(n);
  auto withDirection = [&](Value value) {
    return value ? n.reshape(value, {1, batch, hidden}) : Value();
  };
  return {sequence, withDirection(steps.h), withDirection(steps.c)};
}

static LogicalResult convert(NodeImport &n, RecurrentCell kind) {
  Recurrence r = readRecurrence(n, kind);
  OptionalOperands given;
  given.bias = n.has(3) ? n.in(3) : Value();
  given.h = stateInput(n, r, 5);
  bool isLstm = kind == RecurrentCell::lstm;
  if (isLstm) {
    given.c = stateInput(n, r, 6);
    given.peephole = n.has(7) ? n.in(7) : Value();
  }
  if (n.failed())
    return failure();
  if (n.dim(r.input, 0) == 0)
    return finishEmpty(n, r,
                       ArrayRef({given.h, given.c}).take_front(1 + isLstm));
  bool isDefault = llvm::all_of(
      r.forms, [](const CellForm &form) { return form.isDefault(); });
  // Created first to check the types and shapes of all operands; erased as dead
  // if it is not used.
  Operation *layer = createLayer(n, kind, r.direction,
                                 {r.input, r.weight, r.recurrence}, given);
  if (!layer)
    return failure();
  if (isDefault && !r.lengths)
    return setOutputs(n, r, layer->getResults());
  SmallVector<Value> sequences, h, c;
  for (int64_t d = 0; d < r.directions && !n.failed(); ++d) {
    DirectionImport direction(n, r, given, d);
    DirectionResults results =
        isDefault ? direction.padded() : direction.unrolled();
    sequences.push_back(results.sequence);
    h.push_back(results.h);
    c.push_back(results.c);
  }
  if (n.failed())
    return failure();
  SmallVector<Value> outputs = {n.concat(sequences, 1), n.concat(h, 0)};
  if (isLstm)
    outputs.push_back(n.concat(c, 0));
  layer->erase();
  return setOutputs(n, r, outputs);
}

static LogicalResult convertLstm(NodeImport &n) {
  return convert(n, RecurrentCell::lstm);
}

static LogicalResult convertGru(NodeImport &n) {
  return convert(n, n.flag("linear_before_reset") ? RecurrentCell::linear_gru
                                                  : RecurrentCell::gru);
}

static LogicalResult convertRnn(NodeImport &n) {
  return convert(n, RecurrentCell::rnn);
}

OpFamily mpc::onnx::recurrentOps() {
  static const OpEntry entries[] = {
      {"GRU 7,14,22 3-6 activation_alpha activation_beta activations clip "
       "direction hidden_size layout linear_before_reset",
       convertGru},
      {"LSTM 7,14,22 3-8 activation_alpha activation_beta activations clip "
       "direction hidden_size input_forget layout",
       convertLstm},
      {"RNN 7,14,22 3-6 activation_alpha activation_beta activations clip "
       "direction hidden_size layout",
       convertRnn},
  };
  return entries;
}
