//===- MpcRecurrenceTraining.cpp - rules of recurrences for training ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrentOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

int64_t mpc::gatesOf(RecurrentCell cell) {
  switch (cell) {
  case RecurrentCell::lstm:
    return LstmOp::kGates;
  case RecurrentCell::gru:
  case RecurrentCell::linear_gru:
    return GruOp::kGates;
  case RecurrentCell::rnn:
    return RnnOp::kGates;
  }
  return 0;
}

int64_t RecurrenceOp::getGates() { return gatesOf(getCell()); }

int64_t mpc::savedActivationsOf(RecurrentCell cell) {
  switch (cell) {
  case RecurrentCell::lstm:
  case RecurrentCell::linear_gru:
    return 5;
  case RecurrentCell::gru:
    return 4;
  case RecurrentCell::rnn:
    return 1;
  }
  return 0;
}

std::optional<RecurrenceSteps> RecurrenceSteps::of(Operation *op) {
  auto make = [](auto steps) {
    RecurrenceSteps view{
        steps.getCell(),       steps.getDirection(), steps.getProjected(),
        steps.getRecurrence(), steps.getBias(),      steps.getInitialH(),
        steps.getInitialC(),   steps.getPeephole(),  steps.getResult(),
        steps.getFinalH(),     steps.getFinalC(),    {}};
    if constexpr (std::is_same_v<decltype(steps), RecurrenceTrainingOp>)
      view.kept = steps.getKept();
    return view;
  };
  return llvm::TypeSwitch<Operation *, std::optional<RecurrenceSteps>>(op)
      .Case<RecurrenceOp, RecurrenceTrainingOp>(make)
      .Default([](Operation *) { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// Rules shared by a recurrence and its gradient.
template <typename OpTy> class StepsVerifier {
public:
  explicit StepsVerifier(OpTy op) : op(op) {}

  /// Checks the weights, and that `steps` is `[T, B, D * perUnit * H]`.
  LogicalResult check(Value steps, int64_t perUnit, StringRef what) {
    Value recurrence = op.getRecurrence();
    if (failed(requireStatic(op.getLoc(), OpTy::getOperationName(),
                             {steps, recurrence})))
      return failure();
    RankedTensorType all = tensor(steps), weights = tensor(recurrence);
    if (all.getRank() != 3 || weights.getRank() != 3)
      return op.emitOpError()
             << "needs operands of rank 3, found " << all << " and " << weights;
    directions = op.getDirection() == RecurrentDirection::bidirectional ? 2 : 1;
    hidden = weights.getShape()[2];
    count = all.getShape()[0];
    batch = all.getShape()[1];
    if (weights.getShape() !=
            ArrayRef<int64_t>(
                {directions, productOf({op.getGates(), hidden}), hidden}) ||
        all.getShape()[2] != productOf({directions, perUnit, hidden})) // C2
      return op.emitOpError()
             << "weights " << weights << " do not fit " << what << " " << all
             << " in " << directions << " direction(s)";
    // C1
    state = all.getElementType();
    Type narrow = weights.getElementType();
    if (narrow != state &&
        narrow.getIntOrFloatBitWidth() >= state.getIntOrFloatBitWidth())
      return op.emitOpError() << "keeps states in " << state
                              << ", narrower than its weights' " << narrow;
    return success();
  }

  /// Checks the type of an optional value; C1 and C2.
  LogicalResult check(Value value, ArrayRef<int64_t> shape, StringRef what) {
    if (value && (tensor(value).getShape() != shape ||
                  tensor(value).getElementType() != state))
      return op.emitOpError()
             << what << " must be " << RankedTensorType::get(shape, state)
             << ", found " << value.getType();
    return success();
  }
  LogicalResult checkState(Value value, StringRef what) {
    return check(value, {directions, batch, hidden}, what);
  }
  LogicalResult checkSequence(Value value, StringRef what) {
    return check(value, {count, directions, batch, hidden}, what);
  }
  /// Checks for `[T, B, D * perUnit * H]`.
  LogicalResult checkGates(Value value, int64_t perUnit, StringRef what) {
    return check(
        value, {count, batch, productOf({directions, perUnit, hidden})}, what);
  }
  LogicalResult checkPeephole(Value value) {
    return check(value, {directions, productOf({3, hidden})}, "peephole");
  }

  OpTy op;
  int64_t directions = 0, hidden = 0, count = 0, batch = 0;
  Type state;
};
} // namespace

/// Verifies a recurrence with or without saved activations.
template <typename OpTy>
static LogicalResult verifySteps(StepsVerifier<OpTy> &verifier) {
  OpTy op = verifier.op;
  if (failed(verifier.check(op.getProjected(), op.getGates(), "gates")) ||
      failed(verifier.check(
          op.getBias(),
          {verifier.directions, productOf({op.getGates(), verifier.hidden})},
          "bias")) ||
      failed(verifier.checkState(op.getInitialH(), "initial state")) ||
      failed(verifier.checkState(op.getInitialC(), "initial state")) ||
      failed(verifier.checkPeephole(op.getPeephole())) ||
      failed(verifier.checkSequence(op.getResult(), "result")) ||
      failed(verifier.checkState(op.getFinalH(), "final state")) ||
      failed(verifier.checkState(op.getFinalC(), "final state")))
    return failure();
  bool isLstm = op.getCell() == RecurrentCell::lstm;
  if (isLstm != bool(op.getFinalC()) ||
      (!isLstm && (op.getInitialC() || op.getPeephole()))) // C3
    return op.emitOpError() << "has a cell state where its cell is not lstm, "
                               "or none where it is";
  return success();
}

LogicalResult RecurrenceOp::verify() {
  StepsVerifier<RecurrenceOp> verifier(*this);
  return verifySteps(verifier);
}

LogicalResult RecurrenceTrainingOp::verify() {
  StepsVerifier<RecurrenceTrainingOp> verifier(*this);
  if (failed(verifySteps(verifier)))
    return failure();
  return verifier.checkGates(getKept(), getKeptValues(), "kept");
}

LogicalResult RecurrenceGradientOp::verify() {
  StepsVerifier<RecurrenceGradientOp> verifier(*this);
  if (failed(verifier.check(getKept(), getKeptValues(), "kept")) ||
      failed(verifier.checkSequence(getResultGradient(), "result")) ||
      failed(verifier.checkState(getFinalHGradient(), "final state")) ||
      failed(verifier.checkState(getFinalCGradient(), "final state")) ||
      failed(verifier.checkState(getInitial(), "initial state")) ||
      failed(verifier.checkPeephole(getPeephole())) ||
      failed(verifier.checkGates(getProjectedGradient(), getGates(),
                                 "gradient of the gates")) ||
      failed(verifier.checkState(getInitialHGradient(),
                                 "gradient of the initial state")))
    return failure();
  bool isLstm = getCell() == RecurrentCell::lstm,
       isLinear = getCell() == RecurrentCell::linear_gru;
  if ((isLstm || isLinear) != bool(getOtherGradient()) ||
      (!isLstm && (getFinalCGradient() || getPeephole()))) // C3
    return emitOpError() << "has a cell state where its cell is not lstm, or "
                            "lacks a third result or has one without need";
  return isLstm ? verifier.checkState(getOtherGradient(),
                                      "gradient of the initial state")
                : verifier.checkGates(getOtherGradient(), getGates(),
                                      "gradient of the gates");
}
