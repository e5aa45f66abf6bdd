//===- RecurrenceGradient.cpp - recurrence_gradient -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In storage-rounding mode values are rounded to the state's type, and GEMM
// operands to the weights' type.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "ReferenceGemm.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

/// Backpropagation through time for one op. Sequences of states are
/// `[batch * hidden]`.
template <typename Round> class BackpropThroughTime {
public:
  BackpropThroughTime(RecurrenceGradientOp op, Evaluation &evaluation,
                      Round round)
      : op(op), evaluation(evaluation), round(round),
        recurrence(evaluation.operand(0)), kept(evaluation.operand(1)),
        sequence(evaluation.find(op.getResultGradient())),
        finalH(evaluation.find(op.getFinalHGradient())),
        finalC(evaluation.find(op.getFinalCGradient())),
        initial(evaluation.find(op.getInitial())),
        peephole(evaluation.find(op.getPeephole())), cell(op.getCell()),
        gates(op.getGates()), values(op.getKeptValues()), steps(op.getSteps()),
        batch(op.getBatch()), hidden(op.getHidden()),
        directions(op.getDirections()), units(batch * hidden) {}

  void run() {
    for (int64_t d = 0; d < directions; ++d)
      runDirection(d);
  }

private:
  using Values = std::vector<double>;

  void runDirection(int64_t d) {
    Values dh = stateOf(finalH, d), dc = stateOf(finalC, d);
    bool reversed = op.getDirection() == RecurrentDirection::reverse || d == 1;
    for (int64_t i = steps - 1; i >= 0; --i) {
      int64_t time = reversed ? steps - 1 - i : i;
      before = i > 0 ? valueAt(d, reversed ? time + 1 : time - 1, values - 1)
                     : stateOf(initial, d);
      if (sequence)
        for (int64_t j = 0; j < units; ++j)
          dh[j] = round(
              dh[j] + sequence->floats()[(time * directions + d) * units + j]);
      step(d, time, dh, dc);
    }
    store(1, d, dh);
    if (cell == RecurrentCell::lstm)
      store(2, d, dc);
  }

  /// Maps the cotangents of the states after the step at `time` to those before
  /// it.
  void step(int64_t d, int64_t time, Values &dh, Values &dc) {
    switch (cell) {
    case RecurrentCell::lstm:
      return lstm(d, time, dh, dc);
    case RecurrentCell::gru:
      return gru(d, time, dh);
    case RecurrentCell::linear_gru:
      return linearGru(d, time, dh);
    case RecurrentCell::rnn:
      return rnn(d, time, dh);
    }
  }

  double ofSigmoid(double value) { return round(value * round(1 - value)); }
  double ofTanh(double value) {
    return round(round(1 - value) * round(1 + value));
  }
  double times(double x, double y, double z) { return round(round(x * y) * z); }

  void lstm(int64_t d, int64_t time, Values &dh, Values &dc) {
    Values in = valueAt(d, time, 0), out = valueAt(d, time, 1),
           forget = valueAt(d, time, 2), fresh = valueAt(d, time, 3),
           state = valueAt(d, time, 4);
    Values all(units * 4);
    for (int64_t j = 0; j < units; ++j) {
      auto peep = [&](int64_t gate, double value) {
        if (!peephole)
          return 0.0;
        return round(value *
                     peephole->floats()[(d * 3 + gate) * hidden + j % hidden]);
      };
      double shown = round(std::tanh(state[j]));
      double dOut = times(dh[j], shown, ofSigmoid(out[j]));
      double dState = round(dc[j] + times(dh[j], out[j], ofTanh(shown)));
      dState = round(dState + peep(1, dOut));
      double dIn = times(dState, fresh[j], ofSigmoid(in[j]));
      double dForget = times(dState, before[j], ofSigmoid(forget[j]));
      double dFresh = times(dState, in[j], ofTanh(fresh[j]));
      dc[j] = round(dState * forget[j]);
      dc[j] = round(round(dc[j] + peep(0, dIn)) + peep(2, dForget));
      set(all, j, {dIn, dOut, dForget, dFresh});
    }
    storeGates(0, d, time, all);
    dh = product(d, all, 0, 4);
  }

  void linearGru(int64_t d, int64_t time, Values &dh) {
    Values update = valueAt(d, time, 0), reset = valueAt(d, time, 1),
           fresh = valueAt(d, time, 2), share = valueAt(d, time, 3);
    Values all(units * 3), recurrent(units * 3), rest(units);
    for (int64_t j = 0; j < units; ++j) {
      double dUpdate =
          times(dh[j], round(before[j] - fresh[j]), ofSigmoid(update[j]));
      double dFresh = times(dh[j], round(1 - update[j]), ofTanh(fresh[j]));
      double dReset = times(dFresh, share[j], ofSigmoid(reset[j]));
      rest[j] = round(dh[j] * update[j]);
      set(all, j, {dUpdate, dReset, dFresh});
      set(recurrent, j, {dUpdate, dReset, round(dFresh * reset[j])});
    }
    storeGates(0, d, time, all);
    storeGates(2, d, time, recurrent);
    dh = product(d, recurrent, 0, 3);
    for (int64_t j = 0; j < units; ++j)
      dh[j] = round(dh[j] + rest[j]);
  }

  void gru(int64_t d, int64_t time, Values &dh) {
    Values update = valueAt(d, time, 0), reset = valueAt(d, time, 1),
           fresh = valueAt(d, time, 2);
    Values all(units * 3), outer(units * 2), inner(units), rest(units);
    for (int64_t j = 0; j < units; ++j)
      inner[j] = times(dh[j], round(1 - update[j]), ofTanh(fresh[j]));
    Values kept = product(d, inner, 2, 1);
    for (int64_t j = 0; j < units; ++j) {
      double dUpdate =
          times(dh[j], round(before[j] - fresh[j]), ofSigmoid(update[j]));
      double dReset = times(kept[j], before[j], ofSigmoid(reset[j]));
      rest[j] = round(round(dh[j] * update[j]) + round(kept[j] * reset[j]));
      set(all, j, {dUpdate, dReset, inner[j]});
      set(outer, j, {dUpdate, dReset});
    }
    storeGates(0, d, time, all);
    dh = product(d, outer, 0, 2);
    for (int64_t j = 0; j < units; ++j)
      dh[j] = round(dh[j] + rest[j]);
  }

  void rnn(int64_t d, int64_t time, Values &dh) {
    Values state = valueAt(d, time, 0);
    for (int64_t j = 0; j < units; ++j)
      dh[j] = round(dh[j] * ofTanh(state[j]));
    storeGates(0, d, time, dh);
    dh = product(d, dh, 0, 1);
  }

  /// Sets unit j of `[batch][gates][hidden]`.
  void set(Values &all, int64_t j, ArrayRef<double> gates) {
    for (auto [gate, value] : llvm::enumerate(gates))
      all[(j / hidden * int64_t(gates.size()) + int64_t(gate)) * hidden +
          j % hidden] = value;
  }

  /// GEMM of `values` `[batch][count * hidden]` and the weights of gates
  /// `first` and up: `[batch][hidden]`.
  Values product(int64_t d, Values values, int64_t first, int64_t count) {
    withRounding(evaluation.rounding, recurrence.getElementType(),
                 [&](auto narrow) {
                   for (double &value : values)
                     value = narrow(value);
                 });
    Values result(units);
    const double *rows =
        recurrence.floats().data() + (d * gates + first) * hidden * hidden;
    referenceGemm(batch, count * hidden, hidden,
                  {values.data(), count * hidden, 1}, {rows, hidden, 1},
                  result.data(), {evaluation.rounding, kept.getElementType()});
    return result;
  }

  Values stateOf(const Tensor *tensor, int64_t d) const {
    Values state(units);
    if (tensor)
      llvm::copy(tensor->floats().slice(d * units, units), state.begin());
    return state;
  }
  /// Returns saved activation `k` of the step at `time`.
  Values valueAt(int64_t d, int64_t time, int64_t k) const {
    Values result(units);
    for (int64_t j = 0; j < units; ++j)
      result[j] =
          kept.floats()
              [(((time * batch + j / hidden) * directions + d) * values + k) *
                   hidden +
               j % hidden];
    return result;
  }

  void store(unsigned result, int64_t d, const Values &state) {
    llvm::copy(state, evaluation.results[result].floats().begin() + d * units);
  }
  /// Stores `[batch][gates][hidden]` in `[T, B, D * G * H]`.
  void storeGates(unsigned result, int64_t d, int64_t time, const Values &all) {
    int64_t width = gates * hidden;
    for (int64_t row = 0; row < batch; ++row)
      std::copy_n(all.begin() + row * width, width,
                  evaluation.results[result].floats().begin() +
                      ((time * batch + row) * directions + d) * width);
  }

  RecurrenceGradientOp op;
  Evaluation &evaluation;
  Round round;
  const Tensor &recurrence, &kept;
  const Tensor *sequence, *finalH, *finalC, *initial, *peephole;
  RecurrentCell cell;
  int64_t gates, values, steps, batch, hidden, directions, units;
  /// State before the step.
  Values before;
};

} // namespace

FailureOr<bool>
mpc::reference::evaluateRecurrenceGradient(Evaluation &evaluation) {
  auto op = dyn_cast<RecurrenceGradientOp>(evaluation.op);
  if (!op)
    return false;
  for (unsigned i = 0, e = op->getNumResults(); i < e; ++i)
    evaluation.addResult();
  withRounding(
      evaluation.rounding, evaluation.results[0].getElementType(),
      [&](auto round) {
        BackpropThroughTime<decltype(round)>(op, evaluation, round).run();
      });
  return true;
}
