//===- PaddingValues.cpp - values of padding elements ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If the operands of an elementwise op have known values, the interpreter
// evaluates the op on them. Otherwise a few rules determine whether results
// stay zero or finite; ops without a rule may yield anything.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PaddingAxes.h"

#include "ScalarEvaluation.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Reference/Interpreter.h"

using namespace mlir;
using namespace mpc;
using reference::Tensor;

double mpc::paddingValue(Operation *op, unsigned operand) {
  return isa<DivOp>(op) && operand == 1 ? 1 : 0;
}

//===----------------------------------------------------------------------===//
// Elementwise, by evaluation
//===----------------------------------------------------------------------===//

/// Returns the value of a splat constant.
static std::optional<double> splatOf(Value value) {
  auto constant = value.getDefiningOp<mpc::ConstantOp>();
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

bool mpc::isFiniteWhenPadded(Operation *op, ArrayRef<unsigned> padded) {
  // Other operands repeat values of the model; a positive and a negative one
  // reveal an exponent's sign.
  bool usesOwn = false;
  auto isFiniteWith = [&](double own) {
    SmallVector<double> values;
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      if (llvm::is_contained(padded, index)) {
        values.push_back(paddingValue(op, index));
        continue;
      }
      std::optional<double> splat = splatOf(operand.get());
      bool isOwn = !splat || !std::isfinite(*splat);
      usesOwn |= isOwn;
      values.push_back(isOwn ? own : *splat);
    }
    std::optional<double> value = evaluateAt(op, values);
    return value && std::isfinite(*value);
  };
  return isFiniteWith(1) && (!usesOwn || isFiniteWith(-1));
}

//===----------------------------------------------------------------------===//
// Elementwise, by rules
//===----------------------------------------------------------------------===//

/// Returns the state of an operand that does not have the axis and so repeats
/// values of the model.
static PaddingState ownLanes(Value value) {
  if (std::optional<double> splat = splatOf(value))
    return PaddingState::known(*splat);
  return PaddingState::finite();
}

/// A branch without the axis may contain values that the model's own positions
/// never select.
static PaddingState branchLanes(Operation *op, const OpAxis &axis,
                                unsigned branch, PaddingState state) {
  Value value = op->getOperand(branch);
  bool selectsAlike = !axis.find(/*isResult=*/false, /*index=*/0);
  if (axis.find(/*isResult=*/false, branch) ||
      !isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return state;
  if (selectsAlike)
    return state.isFinite() ? state : PaddingState::finite();
  auto constant = value.getDefiningOp<mpc::ConstantOp>();
  if (state.getValue() || !constant)
    return constant ? state : PaddingState::any();
  FailureOr<Tensor> tensor = Tensor::fromAttr(constant.getValue());
  bool isFinite =
      succeeded(tensor) && llvm::all_of(tensor->floats(), [](double element) {
        return std::isfinite(element);
      });
  return isFinite ? PaddingState::finite() : PaddingState::any();
}

static PaddingState selectLanes(Operation *op, const OpAxis &axis,
                                ArrayRef<PaddingState> operands) {
  PaddingState onTrue = branchLanes(op, axis, 1, operands[1]),
               onFalse = branchLanes(op, axis, 2, operands[2]);
  if (std::optional<double> condition = operands[0].getValue())
    return *condition != 0 ? onTrue : onFalse;
  if (std::optional<double> value = onTrue.getValue();
      value && onFalse.holds(*value))
    return onTrue;
  return onTrue.isFinite() && onFalse.isFinite() ? PaddingState::finite()
                                                 : PaddingState::any();
}

static PaddingState elementwiseLanes(Operation *op, const OpAxis &axis,
                                     ArrayRef<PaddingState> operands) {
  if (isa<SelectOp>(op))
    return selectLanes(op, axis, operands);
  SmallVector<double> values;
  for (const PaddingState &operand : operands)
    if (std::optional<double> value = operand.getValue())
      values.push_back(*value);
  if (values.size() == operands.size()) {
    std::optional<double> value = evaluateAt(op, values);
    return value && !std::isnan(*value) ? PaddingState::known(*value)
                                        : PaddingState::any();
  }
  // Integers and booleans are never infinite.
  if (!isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return PaddingState::finite();
  if (!llvm::all_of(operands,
                    [](const PaddingState &state) { return state.isFinite(); }))
    return PaddingState::any();
  if (isa<MulOp>(op))
    return operands[0].isZero() || operands[1].isZero()
               ? PaddingState::zero()
               : PaddingState::finite();
  // The divisor is 1 or repeats the model's own values.
  if (isa<DivOp>(op))
    return operands[0].isZero() ? PaddingState::zero() : PaddingState::finite();
  return op->hasTrait<KeepsFinite>() ? PaddingState::finite()
                                     : PaddingState::any();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

PaddingState mpc::movedLanes(Operation *op, const OpAxis &axis,
                             ArrayRef<PaddingState> operands) {
  SmallVector<PaddingState> linked;
  for (const AxisLink &link : axis.links)
    if (!link.isResult)
      linked.push_back(operands[link.index]);
  if (!linked.empty() && linked.front().getValue() && llvm::all_equal(linked)) {
    bool isMoved = llvm::is_contained(
        {FusionClass::View, FusionClass::IndexMap, FusionClass::Gather},
        fusionClassOf(op));
    if (isMoved || linked.front().isZero())
      return linked.front();
  }
  bool isFinite = llvm::all_of(
      linked, [](const PaddingState &state) { return state.isFinite(); });
  return isFinite ? PaddingState::finite() : PaddingState::any();
}

PaddingState mpc::resultLanes(Operation *op, const OpAxis &axis,
                              ArrayRef<PaddingState> states, unsigned result) {
  if (auto padded = dyn_cast<PaddingOpInterface>(op))
    return padded.getPaddedPlaces(axis, result, states);
  // Rows of finite values give finite rows, rarely zeros.
  if (op->hasTrait<MapsRows>())
    return states[0].isFinite() ? PaddingState::finite() : PaddingState::any();
  // Only the states of operands on the axis count; others are the model's own.
  SmallVector<PaddingState> operands(states);
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (!axis.find(/*isResult=*/false, index))
      operands[index] = ownLanes(operand);
  return elementwiseLanes(op, axis, operands);
}
