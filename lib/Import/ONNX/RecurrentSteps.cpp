//===- RecurrentSteps.cpp - unrolled recurrent cells ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RecurrentSteps.h"

#include "CheckedIndices.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Maximum length of an unrolled sequence, in steps.
static constexpr int64_t kMaxSteps = 1024;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static ArrayRef<StringRef> defaultActivations(RecurrentCell kind) {
  static constexpr StringRef names[] = {"sigmoid", "tanh", "tanh"};
  switch (kind) {
  case RecurrentCell::lstm:
    return names;
  case RecurrentCell::gru:
  case RecurrentCell::linear_gru:
    return ArrayRef(names).take_front(2);
  case RecurrentCell::rnn:
    return ArrayRef(names).take_back(1);
  }
}

bool CellForm::isDefault() const {
  if (clip || couplesForget)
    return false;
  return llvm::equal(
      activations, defaultActivations(kind),
      [](const Activation &a, StringRef name) { return a.name == name; });
}

SmallVector<CellForm, 2> mpc::onnx::readCellForms(NodeImport &n,
                                                  RecurrentCell kind,
                                                  int64_t directions) {
  CellForm form;
  form.kind = kind;
  if (n.hasAttr("clip")) {
    form.clip = n.floatAttr("clip", 0);
    if (!n.failed() && !(*form.clip >= 0))
      n.error() << "attribute 'clip' is " << *form.clip
                << ", expected a number that is not negative";
  }
  form.couplesForget = kind == RecurrentCell::lstm && n.flag("input_forget");
  ArrayRef<StringRef> defaults = defaultActivations(kind);
  std::vector<std::string> names = n.stringsAttr("activations");
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d)
      for (StringRef name : defaults)
        names.push_back(name.str());
  // RNN's default has a name for each direction, which tools that write
  // defaults into models do not adapt.
  if (kind == RecurrentCell::rnn && directions == 1 &&
      names == std::vector<std::string>{"Tanh", "Tanh"})
    names.pop_back();
  if (names.size() != defaults.size() * size_t(directions) && !n.failed())
    n.error() << "attribute 'activations' has " << names.size()
              << " entries, expected " << defaults.size() * size_t(directions);
  SmallVector<double> alphas = n.floatsAttr("activation_alpha"),
                      betas = n.floatsAttr("activation_beta");
  size_t usedAlphas = 0, usedBetas = 0;
  SmallVector<CellForm, 2> forms;
  for (size_t i = 0; i < names.size() && !n.failed(); ++i) {
    if (i % defaults.size() == 0)
      forms.push_back(form);
    std::string name = StringRef(names[i]).lower();
    Activation function = activationOf(name);
    if (function.name.empty())
      n.error() << "attribute 'activations' has the entry '" << names[i]
                << "', expected Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
                   "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh or "
                   "ThresholdedRelu";
    // Values are assigned, in order, to the functions that take one.
    if (function.takesAlpha && usedAlphas < alphas.size())
      function.alpha = alphas[usedAlphas++];
    if (function.takesBeta && usedBetas < betas.size())
      function.beta = betas[usedBetas++];
    forms.back().activations.push_back(std::move(function));
  }
  return forms;
}

Value mpc::onnx::readSequenceLengths(NodeImport &n, int64_t steps,
                                     int64_t batch) {
  Value lengths = n.in(4);
  if (n.failed())
    return nullptr;
  if (n.shape(lengths) != ArrayRef<int64_t>({batch})) {
    n.error() << "sequence_lens is " << lengths.getType() << ", expected "
              << batch << " entries, one for each sequence";
    return nullptr;
  }
  lengths = checkedLengths(n, 4, "sequence_lens", steps, "the input's steps");
  std::shared_ptr<const reference::Tensor> known =
      lengths ? n.known(lengths) : nullptr;
  bool areFull = known && llvm::all_of(known->ints(), [&](int64_t length) {
                   return length == steps;
                 });
  return areFull ? Value() : lengths;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value mpc::onnx::entryOf(NodeImport &n, Value value, int64_t index) {
  Value part = n.sliceAxis(value, 0, index, 1);
  return n.failed() ? nullptr : n.reshape(part, n.shape(value).drop_front());
}

Value mpc::onnx::reverseSequence(NodeImport &n, Value x, Value lengths,
                                 int64_t time, int64_t batch) {
  if (n.failed())
    return nullptr;
  int64_t rank = n.rank(x);
  if (n.rank(lengths) != 1 || n.dim(lengths, 0) != n.dim(x, batch) ||
      time == batch) {
    n.error() << "sequence lengths " << lengths.getType()
              << " do not fit dimension " << batch << " of " << x.getType();
    return nullptr;
  }
  Type i64 = n.builder.getI64Type();
  SmallVector<int64_t> shape(rank, 1);
  shape[batch] = n.dim(x, batch);
  Value length = n.reshape(n.cast(lengths, i64), shape);
  Value position = n.iota(n.dim(x, time), time, rank, i64);
  Value mirrored =
      n.op<SubOp>({n.op<SubOp>({length, n.scalar(1, i64)}), position});
  Value inside = n.compare(ComparePredicate::lt, position, length);
  Value index = n.broadcast(n.select(inside, mirrored, position), n.shape(x));
  return n.op<GatherElementsOp>({x, index}, n.attr("axis", time));
}

/// Adds two values; null means 0.
static Value plus(NodeImport &n, Value value, Value other) {
  if (!value || !other)
    return value ? value : other;
  return n.op<AddOp>({value, other});
}

/// Multiplies two values; null means 0.
static Value times(NodeImport &n, Value value, Value other) {
  return value && other ? n.op<MulOp>({value, other}) : Value();
}

void UnrolledDirection::step(NodeImport &n, Value input, int64_t hidden) {
  Type type = n.element(input);
  auto gate = [&](Value gates, int64_t i) {
    return n.sliceAxis(gates, 1, i * hidden, hidden);
  };
  auto recurrent = [&](Value state, int64_t first, int64_t count) {
    return state ? recur(state, first, count) : Value();
  };
  auto apply = [&](size_t function, Value x) {
    if (form.clip)
      x = n.op<ClampOp>(
          {x, n.scalar(-*form.clip, type), n.scalar(*form.clip, type)});
    return activate(n, form.activations[function], x);
  };
  auto complement = [&](Value x) {
    return n.op<SubOp>({n.scalar(1, type), x});
  };
  switch (form.kind) {
  case RecurrentCell::lstm: {
    Value gates = plus(n, input, recurrent(h, 0, 4));
    auto peep = [&](int64_t i, Value cell) {
      return plus(n, gate(gates, i), times(n, cell, peephole[i]));
    };
    // ONNX's gate order is input, output, forget, cell; that of peepholes is
    // input, output, forget.
    Value in = apply(0, peep(0, c));
    Value forget = form.couplesForget ? complement(in) : apply(0, peep(2, c));
    Value fresh = n.op<MulOp>({in, apply(1, gate(gates, 3))});
    c = plus(n, fresh, times(n, forget, c));
    Value out = apply(0, peep(1, c));
    h = n.op<MulOp>({out, activate(n, form.activations[2], c)});
    return;
  }
  case RecurrentCell::gru:
  case RecurrentCell::linear_gru: {
    bool isLinear = form.kind == RecurrentCell::linear_gru;
    Value gates =
        plus(n, n.sliceAxis(input, 1, 0, 2 * hidden), recurrent(h, 0, 2));
    Value update = apply(0, gate(gates, 0)), reset = apply(0, gate(gates, 1));
    Value share =
        isLinear ? times(n, reset, plus(n, recurrent(h, 2, 1), candidateBias))
                 : recurrent(times(n, reset, h), 2, 1);
    Value fresh = apply(1, plus(n, gate(input, 2), share));
    h = plus(n, n.op<MulOp>({complement(update), fresh}), times(n, update, h));
    return;
  }
  case RecurrentCell::rnn:
    h = apply(0, plus(n, input, recurrent(h, 0, 1)));
    return;
  }
}

Value UnrolledDirection::run(NodeImport &n) {
  if (n.failed())
    return nullptr;
  int64_t steps = n.dim(gates, 0), batch = n.dim(gates, 1),
          hidden = n.dim(gates, 2) / gatesOf(form.kind);
  Type type = n.element(gates);
  if (steps < 1 || steps > kMaxSteps) {
    n.error() << "its sequence has " << steps << " steps, expected 1 to "
              << kMaxSteps << " where steps are unrolled";
    return nullptr;
  }
  Value zeros = n.splat({batch, hidden}, 0, type), limit;
  if (lengths) {
    limit = n.reshape(n.cast(lengths, n.builder.getI64Type()), {batch, 1});
    h = h ? h : zeros;
    if (form.kind == RecurrentCell::lstm)
      c = c ? c : zeros;
  }
  SmallVector<Value> states(steps);
  for (int64_t i = 0; i < steps && !n.failed(); ++i) {
    int64_t time = reverse ? steps - 1 - i : i;
    Value oldH = h, oldC = c;
    step(n, entryOf(n, gates, time), hidden);
    Value row = h;
    if (limit) {
      Value inside =
          n.compare(ComparePredicate::lt,
                    n.scalar(double(time), n.builder.getI64Type()), limit);
      row = n.select(inside, h, zeros);
      h = n.select(inside, h, oldH);
      if (c)
        c = n.select(inside, c, oldC);
    }
    states[time] = n.failed() ? nullptr : n.reshape(row, {1, 1, batch, hidden});
  }
  return n.failed() ? nullptr : n.concat(states, 0);
}
