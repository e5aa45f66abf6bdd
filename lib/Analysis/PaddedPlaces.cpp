//===- PaddedPlaces.cpp - values of padding elements ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If the operands of an elementwise op have known values, the interpreter
// evaluates the op on them. Otherwise a few rules determine whether results
// stay zero or finite; ops without a rule may yield anything.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/PaddingAxes.h"

#include "EvaluateAt.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
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
static LaneState ownLanes(Value value) {
  if (std::optional<double> splat = splatOf(value))
    return LaneState::known(*splat);
  return LaneState::finite();
}

/// A branch without the axis may contain values that the model's own positions
/// never select.
static LaneState branchLanes(Operation *op, const OpAxis &axis, unsigned branch,
                             LaneState state) {
  Value value = op->getOperand(branch);
  bool selectsAlike = !axis.find(/*isResult=*/false, /*index=*/0);
  if (axis.find(/*isResult=*/false, branch) ||
      !isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return state;
  if (selectsAlike)
    return state.isFinite() ? state : LaneState::finite();
  auto constant = value.getDefiningOp<mpc::ConstantOp>();
  if (state.getValue() || !constant)
    return constant ? state : LaneState::any();
  FailureOr<Tensor> tensor = Tensor::fromAttr(constant.getValue());
  bool isFinite =
      succeeded(tensor) && llvm::all_of(tensor->floats(), [](double element) {
        return std::isfinite(element);
      });
  return isFinite ? LaneState::finite() : LaneState::any();
}

static LaneState selectLanes(Operation *op, const OpAxis &axis,
                             ArrayRef<LaneState> operands) {
  LaneState onTrue = branchLanes(op, axis, 1, operands[1]),
            onFalse = branchLanes(op, axis, 2, operands[2]);
  if (std::optional<double> condition = operands[0].getValue())
    return *condition != 0 ? onTrue : onFalse;
  if (std::optional<double> value = onTrue.getValue();
      value && onFalse.holds(*value))
    return onTrue;
  return onTrue.isFinite() && onFalse.isFinite() ? LaneState::finite()
                                                 : LaneState::any();
}

static LaneState elementwiseLanes(Operation *op, const OpAxis &axis,
                                  ArrayRef<LaneState> operands) {
  if (isa<SelectOp>(op))
    return selectLanes(op, axis, operands);
  SmallVector<double> values;
  for (const LaneState &operand : operands)
    if (std::optional<double> value = operand.getValue())
      values.push_back(*value);
  if (values.size() == operands.size()) {
    std::optional<double> value = evaluateAt(op, values);
    return value && !std::isnan(*value) ? LaneState::known(*value)
                                        : LaneState::any();
  }
  // Integers and booleans are never infinite.
  if (!isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return LaneState::finite();
  if (!llvm::all_of(operands,
                    [](const LaneState &state) { return state.isFinite(); }))
    return LaneState::any();
  if (isa<MulOp>(op))
    return operands[0].isZero() || operands[1].isZero() ? LaneState::zero()
                                                        : LaneState::finite();
  // The divisor is 1 or repeats the model's own values.
  if (isa<DivOp>(op))
    return operands[0].isZero() ? LaneState::zero() : LaneState::finite();
  return op->hasTrait<KeepsFinite>() ? LaneState::finite() : LaneState::any();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

LaneState mpc::movedLanes(Operation *op, const OpAxis &axis,
                          ArrayRef<LaneState> operands) {
  SmallVector<LaneState> linked;
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
      linked, [](const LaneState &state) { return state.isFinite(); });
  return isFinite ? LaneState::finite() : LaneState::any();
}

LaneState mpc::resultLanes(Operation *op, const OpAxis &axis,
                           ArrayRef<LaneState> states, unsigned result) {
  if (auto padded = dyn_cast<PaddingOpInterface>(op))
    return padded.getPaddedPlaces(axis, result, states);
  // Rows of finite values give finite rows, rarely zeros.
  if (op->hasTrait<MapsRows>())
    return states[0].isFinite() ? LaneState::finite() : LaneState::any();
  // Only the states of operands on the axis count; others are the model's own.
  SmallVector<LaneState> operands(states);
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (!axis.find(/*isResult=*/false, index))
      operands[index] = ownLanes(operand);
  return elementwiseLanes(op, axis, operands);
}
