//===- Recurrent.cpp - lstm, gru, rnn, recurrence -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In storage-rounding mode states and gates are rounded to the result's type,
// and a state to the weights' type before the recurrent GEMM.
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "ReferenceGemm.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

/// An op with projected input.
template <typename OpTy>
concept StepsOf = std::is_same_v<OpTy, RecurrenceOp> ||
                  std::is_same_v<OpTy, RecurrenceTrainingOp>;

namespace {

/// Common parts of the recurrent ops: extents, the input GEMM of one direction,
/// and the loop over time.
class Recurrence {
public:
  template <typename OpTy>
    requires(!StepsOf<OpTy>)
  Recurrence(OpTy op, Evaluation &evaluation)
      : evaluation(evaluation), gates(OpTy::kGates),
        direction(op.getDirection()), input(evaluation.operand(0)),
        weight(&evaluation.operand(1)), recurrence(evaluation.operand(2)),
        bias(evaluation.find(op.getBias())), steps(input.getShape()[0]),
        batch(input.getShape()[1]), width(input.getShape()[2]),
        hidden(recurrence.getShape()[2]), directions(recurrence.getShape()[0]) {
    addResults();
  }
  template <typename OpTy>
    requires StepsOf<OpTy>
  Recurrence(OpTy op, Evaluation &evaluation)
      : evaluation(evaluation), gates(op.getGates()),
        direction(op.getDirection()), input(evaluation.operand(0)),
        weight(nullptr), recurrence(evaluation.operand(1)),
        bias(evaluation.find(op.getBias())), steps(input.getShape()[0]),
        batch(input.getShape()[1]), width(input.getShape()[2]),
        hidden(recurrence.getShape()[2]), directions(recurrence.getShape()[0]),
        keeps(std::is_same_v<OpTy, RecurrenceTrainingOp>) {
    addResults();
  }

  /// GEMM of the input of all steps and the weights of direction `d`, plus the
  /// input bias: `[steps][batch][gates * hidden]`. Without weights the input is
  /// already projected, for all directions.
  template <typename Round>
  std::vector<double> inputProduct(int64_t d, Round round) {
    int64_t rows = steps * batch, columns = gates * hidden;
    std::vector<double> product(rows * columns);
    if (!weight) {
      for (int64_t i = 0; i < rows * columns; ++i)
        product[i] = input.floats()[(i / columns * directions + d) * columns +
                                    i % columns];
      return product;
    }
    referenceGemm(rows, width, columns, {input.floats().data(), width, 1},
                  {weight->floats().data() + d * columns * width, 1, width},
                  product.data(), rules());
    if (bias)
      for (int64_t i = 0; i < rows * columns; ++i)
        product[i] = round(product[i] + biasOf(d, i % columns));
    return product;
  }

  /// `state * R^T` for gates `[first, first + count)`, plus the recurrent bias.
  template <typename Round>
  std::vector<double> stateProduct(int64_t d, std::vector<double> state,
                                   int64_t first, int64_t count, Round round) {
    withRounding(evaluation.rounding, recurrence.getElementType(),
                 [&](auto narrow) {
                   for (double &value : state)
                     value = narrow(value);
                 });
    int64_t columns = count * hidden;
    std::vector<double> product(batch * columns);
    const double *rows =
        recurrence.floats().data() + (d * gates + first) * hidden * hidden;
    referenceGemm(batch, hidden, columns, {state.data(), hidden, 1},
                  {rows, 1, hidden}, product.data(), rules());
    if (bias)
      for (int64_t i = 0; i < batch * columns; ++i)
        product[i] =
            round(product[i] + stateBiasOf(d, first * hidden + i % columns));
    return product;
  }

  /// Initial state of direction `d`: `[batch][hidden]`.
  std::vector<double> initialState(const Tensor *given, int64_t d) const {
    std::vector<double> state(batch * hidden);
    if (given)
      llvm::copy(given->floats().slice(d * batch * hidden, batch * hidden),
                 state.begin());
    return state;
  }

  /// Runs `step(time, state)` in the order of direction `d`; stores the state
  /// in the sequence result after each step and in `final_h` at the end.
  template <typename Fn>
  void walk(int64_t d, std::vector<double> &state, Fn step) {
    bool reversed = direction == RecurrentDirection::reverse || d == 1;
    for (int64_t i = 0; i < steps; ++i) {
      int64_t time = reversed ? steps - 1 - i : i;
      step(time, state);
      llvm::copy(state, evaluation.results[0].floats().begin() +
                            (time * directions + d) * batch * hidden);
    }
    storeFinal(1, d, state);
  }

  /// Saves the activations of unit `i` of `[batch][hidden]`, if the op saves
  /// any.
  void keep(int64_t d, int64_t time, int64_t i, ArrayRef<double> values) {
    if (!keeps)
      return;
    auto count = int64_t(values.size());
    int64_t first = ((time * batch + i / hidden) * directions + d) * count;
    for (int64_t k = 0; k < count; ++k)
      evaluation.results.back().floats()[(first + k) * hidden + i % hidden] =
          values[k];
  }

  void storeFinal(unsigned result, int64_t d, ArrayRef<double> state) {
    llvm::copy(state, evaluation.results[result].floats().begin() +
                          d * batch * hidden);
  }

private:
  GemmRounding rules() const { return {evaluation.rounding, stateType}; }
  void addResults() {
    for (unsigned i = 0, e = evaluation.op->getNumResults(); i < e; ++i)
      evaluation.addResult();
    stateType = evaluation.results[0].getElementType();
  }
  double biasOf(int64_t d, int64_t index) const {
    return bias->floats()[d * 2 * gates * hidden + index];
  }
  double stateBiasOf(int64_t d, int64_t index) const {
    return weight ? biasOf(d, gates * hidden + index)
                  : bias->floats()[d * gates * hidden + index];
  }

  Evaluation &evaluation;

public:
  const int64_t gates;
  const RecurrentDirection direction;
  const Tensor &input;
  const Tensor *weight;
  const Tensor &recurrence;
  const Tensor *bias;
  const int64_t steps, batch, width, hidden, directions;
  const bool keeps = false;
  Type stateType;
};

} // namespace

template <typename OpTy, typename Round>
static void runLstm(OpTy op, Evaluation &evaluation, Recurrence &cell,
                    Round round) {
  const Tensor *initialH = evaluation.find(op.getInitialH());
  const Tensor *initialC = evaluation.find(op.getInitialC());
  const Tensor *peephole = evaluation.find(op.getPeephole());
  int64_t hidden = cell.hidden;
  for (int64_t d = 0; d < cell.directions; ++d) {
    std::vector<double> inputs = cell.inputProduct(d, round);
    std::vector<double> h = cell.initialState(initialH, d),
                        c = cell.initialState(initialC, d);
    auto peep = [&](int64_t gate, int64_t unit, double state) {
      if (!peephole)
        return 0.0;
      return round(peephole->floats()[(d * 3 + gate) * hidden + unit] * state);
    };
    cell.walk(d, h, [&](int64_t time, std::vector<double> &state) {
      std::vector<double> states = cell.stateProduct(d, state, 0, 4, round);
      for (int64_t i = 0; i < cell.batch * hidden; ++i) {
        int64_t row = i / hidden, unit = i % hidden;
        auto gate = [&](int64_t index) {
          int64_t at = (row * 4 + index) * hidden + unit;
          return round(inputs[time * cell.batch * 4 * hidden + at] +
                       states[at]);
        };
        double inputGate = round(sigmoid(round(gate(0) + peep(0, unit, c[i]))));
        double forgetGate =
            round(sigmoid(round(gate(2) + peep(2, unit, c[i]))));
        double candidate = round(std::tanh(gate(3)));
        c[i] = round(round(forgetGate * c[i]) + round(inputGate * candidate));
        double outputGate =
            round(sigmoid(round(gate(1) + peep(1, unit, c[i]))));
        state[i] = round(outputGate * round(std::tanh(c[i])));
        cell.keep(d, time, i,
                  {inputGate, outputGate, forgetGate, candidate, c[i]});
      }
    });
    cell.storeFinal(2, d, c);
  }
}

template <typename OpTy, typename Round>
static void runGru(OpTy op, bool linear, Evaluation &evaluation,
                   Recurrence &cell, Round round) {
  const Tensor *initialH = evaluation.find(op.getInitialH());
  int64_t hidden = cell.hidden, units = cell.batch * hidden;
  for (int64_t d = 0; d < cell.directions; ++d) {
    std::vector<double> inputs = cell.inputProduct(d, round);
    std::vector<double> h = cell.initialState(initialH, d);
    cell.walk(d, h, [&](int64_t time, std::vector<double> &state) {
      std::vector<double> states = cell.stateProduct(d, state, 0, 2, round);
      std::vector<double> update(units), reset(units), resetState(units);
      auto inputAt = [&](int64_t i, int64_t gate) {
        return inputs[((time * cell.batch + i / hidden) * 3 + gate) * hidden +
                      i % hidden];
      };
      auto stateAt = [&](int64_t i, int64_t gate) {
        return states[(i / hidden * 2 + gate) * hidden + i % hidden];
      };
      for (int64_t i = 0; i < units; ++i) {
        update[i] = round(sigmoid(round(inputAt(i, 0) + stateAt(i, 0))));
        reset[i] = round(sigmoid(round(inputAt(i, 1) + stateAt(i, 1))));
        resetState[i] = linear ? state[i] : round(reset[i] * state[i]);
      }
      std::vector<double> candidates =
          cell.stateProduct(d, resetState, 2, 1, round);
      for (int64_t i = 0; i < units; ++i) {
        double fromState =
            linear ? round(reset[i] * candidates[i]) : candidates[i];
        double candidate = round(std::tanh(round(inputAt(i, 2) + fromState)));
        state[i] = round(round(round(1 - update[i]) * candidate) +
                         round(update[i] * state[i]));
        if (linear)
          cell.keep(d, time, i,
                    {update[i], reset[i], candidate, candidates[i], state[i]});
        else
          cell.keep(d, time, i, {update[i], reset[i], candidate, state[i]});
      }
    });
  }
}

template <typename OpTy, typename Round>
static void runRnn(OpTy op, Evaluation &evaluation, Recurrence &cell,
                   Round round) {
  const Tensor *initialH = evaluation.find(op.getInitialH());
  int64_t units = cell.batch * cell.hidden;
  for (int64_t d = 0; d < cell.directions; ++d) {
    std::vector<double> inputs = cell.inputProduct(d, round);
    std::vector<double> h = cell.initialState(initialH, d);
    cell.walk(d, h, [&](int64_t time, std::vector<double> &state) {
      std::vector<double> states = cell.stateProduct(d, state, 0, 1, round);
      for (int64_t i = 0; i < units; ++i) {
        state[i] =
            round(std::tanh(round(inputs[time * units + i] + states[i])));
        cell.keep(d, time, i, {state[i]});
      }
    });
  }
}

FailureOr<bool> mpc::reference::evaluateRecurrent(Evaluation &evaluation) {
  auto run = [&](auto op, auto body) {
    Recurrence cell(op, evaluation);
    withRounding(evaluation.rounding, cell.stateType,
                 [&](auto round) { body(cell, round); });
  };
  auto runSteps = [&](auto steps) {
    run(steps, [&](Recurrence &cell, auto round) {
      switch (steps.getCell()) {
      case RecurrentCell::lstm:
        return runLstm(steps, evaluation, cell, round);
      case RecurrentCell::gru:
        return runGru(steps, /*linear=*/false, evaluation, cell, round);
      case RecurrentCell::linear_gru:
        return runGru(steps, /*linear=*/true, evaluation, cell, round);
      case RecurrentCell::rnn:
        return runRnn(steps, evaluation, cell, round);
      }
    });
  };
  if (auto lstm = dyn_cast<LstmOp>(evaluation.op))
    run(lstm, [&](Recurrence &cell, auto round) {
      runLstm(lstm, evaluation, cell, round);
    });
  else if (auto gru = dyn_cast<GruOp>(evaluation.op))
    run(gru, [&](Recurrence &cell, auto round) {
      runGru(gru, gru.getLinearBeforeReset(), evaluation, cell, round);
    });
  else if (auto rnn = dyn_cast<RnnOp>(evaluation.op))
    run(rnn, [&](Recurrence &cell, auto round) {
      runRnn(rnn, evaluation, cell, round);
    });
  else if (auto steps = dyn_cast<RecurrenceOp>(evaluation.op))
    runSteps(steps);
  else if (auto training = dyn_cast<RecurrenceTrainingOp>(evaluation.op))
    runSteps(training);
  else
    return false;
  return true;
}
