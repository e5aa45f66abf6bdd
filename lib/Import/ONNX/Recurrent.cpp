//===- Recurrent.cpp - LSTM, GRU, RNN ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// What the three recurrent operators share.
struct Recurrence {
  Value input, weight, recurrence;
  RecurrentDirection direction = RecurrentDirection::forward;
  bool batchFirst = false;
  int64_t directions = 1;
};

} // namespace

/// Checks activations against the defaults, which are the only ones of the
/// dialect.
static void checkActivations(NodeImport &n, ArrayRef<StringRef> expected,
                             int64_t directions) {
  std::vector<std::string> given = n.stringsAttr("activations");
  if (given.empty() || n.failed())
    return;
  bool same = given.size() == expected.size() * size_t(directions);
  for (size_t i = 0; same && i < given.size(); ++i)
    same =
        StringRef(given[i]).equals_insensitive(expected[i % expected.size()]);
  if (!same)
    n.error() << "attribute 'activations' is [" << llvm::join(given, ", ")
              << "]; only the default activations are supported";
}

static Recurrence readRecurrence(NodeImport &n,
                                 ArrayRef<StringRef> activations) {
  Recurrence r;
  std::string name = n.stringAttr("direction", "forward");
  std::optional<RecurrentDirection> direction =
      symbolizeRecurrentDirection(name);
  if (!direction && !n.failed())
    n.error() << "attribute 'direction' is '" << name
              << "', expected forward, reverse or bidirectional";
  r.direction = direction.value_or(RecurrentDirection::forward);
  r.directions = r.direction == RecurrentDirection::bidirectional ? 2 : 1;
  checkActivations(n, activations, r.directions);
  for (StringRef unsupported : {"clip", "activation_alpha", "activation_beta"})
    if (n.hasAttr(unsupported) && !n.failed())
      n.error() << "attribute '" << unsupported << "' is not supported";
  if (n.intAttr("input_forget", 0) != 0 && !n.failed())
    n.error() << "attribute 'input_forget' is not supported";
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
  if (n.has(4)) {
    int64_t steps = n.dim(r.input, 0);
    for (int64_t length : n.knownInts(4, "sequence_lens"))
      if (length != steps && !n.failed())
        n.error() << "sequence_lens has the entry " << length
                  << "; only full sequences (" << steps
                  << " steps) are supported";
  }
  return r;
}

/// A state operand, turned to [directions, batch, hidden].
static Value stateInput(NodeImport &n, const Recurrence &r, size_t i) {
  if (!n.has(i))
    return nullptr;
  Value state = n.in(i);
  return r.batchFirst ? n.transpose(state, {1, 0, 2}) : state;
}

/// The outputs of no steps: nothing, and the states as they were given, 0 where
/// they were not. `states` stand in the order of the outputs behind the first.
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

/// Creates the op `name` over required and optional operands and sets the
/// outputs. Behind the bias stand `states` optional operands that are states.
static LogicalResult finish(NodeImport &n, const Recurrence &r, StringRef name,
                            ArrayRef<Value> optional, size_t states,
                            SmallVector<NamedAttribute> attributes) {
  if (n.failed())
    return failure();
  if (n.dim(r.input, 0) == 0)
    return finishEmpty(n, r, optional.slice(1, states));
  SmallVector<Value> operands = {r.input, r.weight, r.recurrence};
  SmallVector<int32_t> segments = {1, 1, 1};
  for (Value value : optional) {
    segments.push_back(value ? 1 : 0);
    if (value)
      operands.push_back(value);
  }
  attributes.push_back(
      n.attr("operandSegmentSizes", n.builder.getDenseI32ArrayAttr(segments)));
  attributes.push_back(
      n.attr("direction",
             RecurrentDirectionAttr::get(n.builder.getContext(), r.direction)));
  Operation *op = n.inferred(name, operands, attributes);
  if (!op)
    return failure();
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    Value value = result;
    // Y is [steps, directions, batch, hidden], states [directions, batch,
    // hidden].
    if (r.batchFirst)
      value = i == 0 ? n.transpose(value, {2, 0, 1, 3})
                     : n.transpose(value, {1, 0, 2});
    n.set(i, value);
  }
  return n.status();
}

static LogicalResult convertLstm(NodeImport &n) {
  Recurrence r = readRecurrence(n, {"Sigmoid", "Tanh", "Tanh"});
  Value bias = n.has(3) ? n.in(3) : Value();
  Value h = stateInput(n, r, 5), c = stateInput(n, r, 6);
  Value peephole = n.has(7) ? n.in(7) : Value();
  return finish(n, r, LstmOp::getOperationName(), {bias, h, c, peephole},
                /*states=*/2, {});
}

static LogicalResult convertGru(NodeImport &n) {
  Recurrence r = readRecurrence(n, {"Sigmoid", "Tanh"});
  Value bias = n.has(3) ? n.in(3) : Value();
  SmallVector<NamedAttribute> attributes;
  if (n.intAttr("linear_before_reset", 0) != 0)
    attributes.push_back(n.unit("linear_before_reset"));
  Value h = stateInput(n, r, 5);
  return finish(n, r, GruOp::getOperationName(), {bias, h}, /*states=*/1,
                attributes);
}

static LogicalResult convertRnn(NodeImport &n) {
  Recurrence r = readRecurrence(n, {"Tanh"});
  Value bias = n.has(3) ? n.in(3) : Value();
  Value h = stateInput(n, r, 5);
  return finish(n, r, RnnOp::getOperationName(), {bias, h}, /*states=*/1, {});
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
