//===- RecomputeAnswers.cpp - oracle answers from device results ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recomputes single ops of a step, the loss or an update, from values that the
// device computed.
//
//===----------------------------------------------------------------------===//

#include "TrainingReference.h"

#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Support/StepNames.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace mpc;
using mpc::reference::Rounding;
using mpc::reference::Tensor;

using Buffers = std::map<std::string, Buffer>;

/// Returns the tensor `name` of `type`, if present.
static std::optional<Tensor> find(const Buffers &buffers,
                                  const std::string &name, Type type) {
  auto found = buffers.find(name);
  auto tensor = cast<RankedTensorType>(type);
  if (found == buffers.end() || !found->second ||
      found->second.type() != runtimeType(tensor))
    return std::nullopt;
  return Tensor::fromBytes(tensor, found->second.data());
}

/// Returns the name of the result `value`, or empty. Considers only results of
/// role loss if `ofLoss`, else only the others.
static std::string resultName(func::FuncOp entry, Value value,
                              bool ofLoss = false) {
  auto values = entry.front().getTerminator()->getOperands();
  for (auto [i, operand] : llvm::enumerate(values)) {
    auto role = entry.getResultAttrOfType<RoleAttr>(i, MpcDialect::kRoleAttr);
    bool isLoss = role && role.getKind() == RoleKind::loss;
    if (operand == value && isLoss == ofLoss)
      return nameIn(entry.getResultAttrDict(i));
  }
  return "";
}

/// Returns the name of the argument `value`, or empty.
static std::string argumentName(func::FuncOp entry, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? nameIn(entry.getArgAttrDict(argument.getArgNumber())) : "";
}

/// Returns the first result of `op` on `operands`.
static std::optional<Tensor> compute(Operation *op, ArrayRef<Tensor> operands,
                                     Rounding rounding) {
  SmallVector<const Tensor *> pointers;
  for (const Tensor &operand : operands)
    pointers.push_back(&operand);
  SmallVector<Tensor> results;
  if (failed(reference::evaluate(op, pointers, results, rounding)))
    return std::nullopt;
  return results.front();
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// Returns the loss of `entry` and its name, computed from arguments and
/// outputs only.
static std::optional<std::pair<std::string, Tensor>>
lossFrom(func::FuncOp entry, Rounding rounding, const Buffers &arguments,
         const Buffers &results) {
  for (Value value : entry.front().getTerminator()->getOperands()) {
    std::string name = resultName(entry, value, /*ofLoss=*/true);
    Operation *op = value.getDefiningOp();
    if (name.empty() || !op)
      continue;
    SmallVector<Tensor> operands;
    for (Value operand : op->getOperands()) {
      std::string argument = argumentName(entry, operand);
      std::optional<Tensor> tensor =
          argument.empty()
              ? find(results, resultName(entry, operand), operand.getType())
              : find(arguments, argument, operand.getType());
      if (!tensor)
        return std::nullopt;
      operands.push_back(std::move(*tensor));
    }
    if (std::optional<Tensor> loss = compute(op, operands, rounding))
      return std::pair(name, std::move(*loss));
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// Returns the coefficients (keep, share) of an optimizer's first state: new =
/// keep x old + share x gradient; nullopt if the update has another form.
static std::optional<std::pair<double, double>>
firstState(Operation *op, bool isFirstStep, double rate) {
  if (auto adam = dyn_cast<OptimizerAdamOp>(op)) {
    double beta = adam.getBeta1().convertToDouble();
    return std::pair(beta, 1 - beta);
  }
  auto sgd = dyn_cast<OptimizerSgdOp>(op);
  if (!sgd || sgd.getMomentum().isZero())
    return std::nullopt;
  double momentum = sgd.getMomentum().convertToDouble();
  if (sgd.getForm() == OptimizerForm::keras)
    return std::pair(momentum, -rate);
  if (isFirstStep)
    return std::pair(0.0, 1.0);
  return std::pair(momentum, 1 - sgd.getDampening().convertToDouble());
}

/// Solves for the gradient that `op` read, from the new and old first state.
template <typename OpTy>
static bool takeBackGradient(OpTy op, ArrayRef<Tensor> operands,
                             ArrayRef<double> newState, Tensor &gradient) {
  auto numberOf = [&](Value value) -> const Tensor & {
    return operands[llvm::find(op->getOperands(), value) - op->operand_begin()];
  };
  std::optional<std::pair<double, double>> made =
      firstState(op, numberOf(op.getStep()).ints()[0] == 0,
                 numberOf(op.getLearningRate()).floats()[0]);
  if (!made || made->second == 0)
    return false;
  auto [keep, share] = *made;
  double scale = op.getUnscale() ? numberOf(op.getUnscale()).floats()[0] : 1;
  if (op.getUnscaleMode() == UnscaleMode::divide)
    scale = 1 / scale;
  double decay = op.getDecoupled() ? 0 : op.getWeightDecay().convertToDouble();
  ArrayRef<double> parameter = operands[0].floats();
  ArrayRef<double> oldState = operands[2].floats();
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double g = (newState[i] - keep * oldState[i]) / share;
    g -= decay * parameter[i];
    gradient.floats()[i] = (op.getMaximize() ? -g : g) / scale;
  }
  return true;
}

/// Returns the parameter that `op` computes given the device's new states in
/// `results`; `numbers` are the scalars of the graph's last run.
static std::optional<Tensor>
parameterFrom(Operation *op, func::FuncOp entry,
              const std::map<const void *, Tensor> &numbers,
              const Buffers &arguments, const Buffers &results) {
  if (!isa<OptimizerAdamOp, OptimizerSgdOp>(op) || op->getNumResults() < 2)
    return std::nullopt;
  std::optional<Tensor> state = find(
      results, resultName(entry, op->getResult(1)), op->getResult(1).getType());
  if (!state)
    return std::nullopt;
  SmallVector<Tensor> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto number = numbers.find(operand.getAsOpaquePointer());
    std::string argument = argumentName(entry, operand);
    std::optional<Tensor> tensor;
    if (i == 1)
      tensor = Tensor(cast<RankedTensorType>(operand.getType()));
    else if (!argument.empty())
      tensor = find(arguments, argument, operand.getType());
    else if (number != numbers.end())
      tensor = number->second;
    if (!tensor)
      return std::nullopt;
    operands.push_back(std::move(*tensor));
  }
  auto adam = dyn_cast<OptimizerAdamOp>(op);
  bool known =
      adam ? takeBackGradient(adam, operands, state->floats(), operands[1])
           : takeBackGradient(cast<OptimizerSgdOp>(op), operands,
                              state->floats(), operands[1]);
  return known ? compute(op, operands, Rounding::Float64) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Returns true if `next` is finite wherever `own` is: device errors must not
/// make the reference non-finite.
static bool keepsFinite(const Tensor &own, const Tensor &next) {
  return llvm::all_of(llvm::zip_equal(own.floats(), next.floats()),
                      [](auto pair) {
                        auto [before, after] = pair;
                        return std::isfinite(after) || !std::isfinite(before);
                      });
}

void TrainingOracle::follow(const Buffers &arguments, const Buffers &results,
                            std::vector<Answer> &answers) {
  func::FuncOp entry = Compiler::entry(*exact.module);
  // With relaxed rounding the loss may read outputs before they are rounded for
  // storage.
  bool readsOutputs = declaredOptions.rounding == RoundingMode::Strict;
  auto truth = lossFrom(entry, Rounding::Float64, arguments, results);
  auto rounded = lossFrom(Compiler::entry(*declared.module), Rounding::Declared,
                          arguments, results);
  for (Answer &answer : answers)
    if (readsOutputs && truth && rounded && answer.name == truth->first &&
        keepsFinite(answer.exact, truth->second)) {
      answer.exact = truth->second;
      answer.declared = rounded->second;
    }
  for (Operation &op : entry.front().getOperations()) {
    std::optional<Tensor> parameter =
        parameterFrom(&op, entry, exact.numbers, arguments, results);
    if (!parameter)
      continue;
    std::string name = resultName(entry, op.getResult(0));
    for (Answer &answer : answers)
      if ((answer.name == name || answer.name == name + kCopySuffix) &&
          keepsFinite(answer.exact, *parameter)) {
        answer.exact = *parameter;
        Type type = answer.declared.getElementType();
        for (auto [to, from] :
             llvm::zip(answer.declared.floats(), parameter->floats()))
          to = reference::roundTo(from, type);
      }
  }
}
