//===- QuantizedRecurrent.cpp - DynamicQuantizeLSTM -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An LSTM with weights in 8 bits. The input is quantised once, over all steps,
// and the hidden state anew at each step, so the steps stay apart.
//
//===----------------------------------------------------------------------===//

#include "Quantization.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Longer sequences are refused: every step becomes ops of its own.
static constexpr int64_t kMaxSteps = 1024;

namespace {

/// A matrix [input or hidden, 4 * hidden] less its zero point, and its scale,
/// one number or one per column.
struct Weight {
  Value factor, scale;
};

/// One direction of the operator.
struct Direction {
  Weight weight, recurrence;
  Value bias;        ///< [4 * hidden] or null
  Value peephole[3]; ///< of input, output, forget: [hidden]
  Value h, c;        ///< [batch, hidden]; null: zeros
  bool reverse = false;
};

} // namespace

/// Position `d` of the first dimension, which is dropped.
static Value entryOf(NodeImport &n, Value value, int64_t d) {
  if (n.failed())
    return nullptr;
  Value part = n.sliceAxis(value, 0, d, 1);
  return n.failed() ? nullptr : n.reshape(part, n.shape(value).drop_front());
}

/// The matrix of direction `d`, made once for all steps.
static Weight readWeight(NodeImport &n, size_t values, size_t scale,
                         size_t zeroPoint, int64_t d) {
  QuantizedTensor weight = {entryOf(n, n.in(values), d),
                            entryOf(n, n.in(scale), d),
                            entryOf(n, n.in(zeroPoint), d)};
  return {centredFactor(n, weight), weight.scale};
}

static Direction readDirection(NodeImport &n, int64_t d, int64_t hidden) {
  Direction direction;
  direction.weight = readWeight(n, 1, 8, 9, d);
  direction.recurrence = readWeight(n, 2, 10, 11, d);
  if (n.has(3)) {
    Value both = entryOf(n, n.in(3), d);
    direction.bias =
        n.op<AddOp>({n.sliceAxis(both, 0, 0, 4 * hidden),
                     n.sliceAxis(both, 0, 4 * hidden, 4 * hidden)});
  }
  if (n.has(5))
    direction.h = entryOf(n, n.in(5), d);
  if (n.has(6))
    direction.c = entryOf(n, n.in(6), d);
  if (n.has(7)) {
    Value all = entryOf(n, n.in(7), d);
    for (int64_t i = 0; i < 3; ++i)
      direction.peephole[i] = n.sliceAxis(all, 0, i * hidden, hidden);
  }
  return direction;
}

/// `x` quantised, times `weight`, as floats.
static Value project(NodeImport &n, Value x, const Weight &weight) {
  QuantizedTensor quantized = quantizeDynamically(n, x);
  Value product =
      multiplyIntegers(n, centredFactor(n, quantized), weight.factor);
  return n.op<MulOp>({n.cast(product, n.element(x)),
                      n.op<MulOp>({quantized.scale, weight.scale})});
}

static Value plus(NodeImport &n, Value value, Value other) {
  return other ? n.op<AddOp>({value, other}) : value;
}

static Value times(NodeImport &n, Value value, Value other) {
  return other ? n.op<MulOp>({value, other}) : Value();
}

/// One step: replaces the direction's states. `gates` holds what the input
/// gives: input, output, forget and cell gates.
static void step(NodeImport &n, Direction &direction, Value gates,
                 int64_t hidden) {
  if (direction.h)
    gates = n.op<AddOp>({gates, project(n, direction.h, direction.recurrence)});
  auto gate = [&](int64_t i) {
    return n.sliceAxis(gates, 1, i * hidden, hidden);
  };
  // A peephole of a cell of zeros adds nothing.
  auto peep = [&](int64_t i, Value cell) {
    return cell && direction.peephole[i] ? times(n, cell, direction.peephole[i])
                                         : Value();
  };
  Value old = direction.c;
  Value in = n.op<SigmoidOp>(plus(n, gate(0), peep(0, old)));
  Value forget = n.op<SigmoidOp>(plus(n, gate(2), peep(2, old)));
  Value fresh = n.op<MulOp>({in, n.op<TanhOp>(gate(3))});
  direction.c = plus(n, fresh, old ? n.op<MulOp>({forget, old}) : Value());
  Value out = n.op<SigmoidOp>(plus(n, gate(1), peep(1, direction.c)));
  direction.h = n.op<MulOp>({out, n.op<TanhOp>(direction.c)});
}

/// Runs a direction over `x`; its hidden states in the order of `x`.
static SmallVector<Value> run(NodeImport &n, Direction &direction, Value x,
                              int64_t hidden) {
  int64_t steps = n.dim(x, 0), batch = n.dim(x, 1);
  Value flat = n.reshape(x, {steps * batch, n.dim(x, 2)});
  Value all = plus(n, project(n, flat, direction.weight), direction.bias);
  Value gates = n.reshape(all, {steps, batch, 4 * hidden});
  SmallVector<Value> states(steps);
  for (int64_t i = 0; i < steps && !n.failed(); ++i) {
    int64_t t = direction.reverse ? steps - 1 - i : i;
    step(n, direction, entryOf(n, gates, t), hidden);
    states[t] = direction.h;
  }
  return states;
}

/// Checks what the operator does not do and the shapes that the rest relies on.
static LogicalResult checkLstm(NodeImport &n, int64_t directions) {
  for (StringRef name : {"clip", "activation_alpha", "activation_beta"})
    if (n.hasAttr(name))
      return n.error() << "attribute '" << name << "' is not supported";
  if (n.intAttr("input_forget", 0) != 0)
    return n.error() << "attribute 'input_forget' is not supported";
  std::vector<std::string> activations = n.stringsAttr("activations");
  static constexpr StringRef kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
  for (auto [i, name] : llvm::enumerate(activations))
    if (!StringRef(name).equals_insensitive(kDefaults[i % 3]))
      return n.error() << "activation '" << name
                       << "' is not supported, only the default ones";
  for (size_t i : {1, 2, 8, 9, 10, 11})
    if (!n.has(i))
      return n.error() << "input " << i << " is missing";
  Value x = n.in(0), weight = n.in(1), recurrence = n.in(2);
  if (n.failed())
    return failure();
  int64_t hidden = n.dim(recurrence, 1);
  if (n.rank(x) != 3 ||
      n.shape(weight) !=
          ArrayRef<int64_t>({directions, n.dim(x, 2), 4 * hidden}) ||
      n.shape(recurrence) !=
          ArrayRef<int64_t>({directions, hidden, 4 * hidden}) ||
      hidden != n.intAttr("hidden_size", hidden))
    return n.error() << "input, weight and recurrence are " << x.getType()
                     << ", " << weight.getType() << " and "
                     << recurrence.getType()
                     << ", expected [steps, batch, input], [directions, input, "
                        "4 * hidden] and [directions, hidden, 4 * hidden]";
  int64_t steps = n.dim(x, 0);
  if (steps < 1 || steps > kMaxSteps)
    return n.error() << "its sequence has " << steps << " steps, expected 1 to "
                     << kMaxSteps;
  if (n.has(4))
    for (int64_t length : n.knownInts(4, "sequence_lens"))
      if (length != steps)
        return n.error() << "sequence_lens has the entry " << length
                         << "; only full sequences (" << steps
                         << " steps) are supported";
  return n.status();
}

static LogicalResult convertDynamicQuantizeLstm(NodeImport &n) {
  std::string name = n.stringAttr("direction", "forward");
  int64_t directions = name == "bidirectional" ? 2 : 1;
  if (directions == 1 && name != "forward" && name != "reverse")
    return n.error() << "attribute 'direction' is '" << name
                     << "', expected forward, reverse or bidirectional";
  if (failed(checkLstm(n, directions)))
    return failure();
  Value x = n.in(0);
  int64_t steps = n.dim(x, 0), batch = n.dim(x, 1), hidden = n.dim(n.in(2), 1);
  SmallVector<Value> sequences, lastH, lastC;
  for (int64_t d = 0; d < directions; ++d) {
    Direction direction = readDirection(n, d, hidden);
    direction.reverse = d == 1 || name == "reverse";
    SmallVector<Value> states = run(n, direction, x, hidden);
    if (n.failed())
      return failure();
    Value sequence = n.concat(states, 0);
    sequences.push_back(n.reshape(sequence, {steps, 1, batch, hidden}));
    lastH.push_back(n.reshape(direction.h, {1, batch, hidden}));
    lastC.push_back(n.reshape(direction.c, {1, batch, hidden}));
  }
  n.set(0, n.concat(sequences, 1));
  n.set(1, n.concat(lastH, 0));
  n.set(2, n.concat(lastC, 0));
  return n.status();
}

OpFamily mpc::onnx::quantizedRecurrentOps() {
  static const OpEntry entries[] = {
      {"com.microsoft:DynamicQuantizeLSTM 1 3-12 activation_alpha "
       "activation_beta activations clip direction hidden_size input_forget",
       convertDynamicQuantizeLstm},
  };
  return entries;
}
