//===- ErrorEstimate.cpp - forward error analysis -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models elements and errors as independent, with mean zero: relative errors of
// factors add up, those of summands are averaged by their squares, and a norm
// preserves the relative error while it sets the magnitude.
//
//===----------------------------------------------------------------------===//

#include "ErrorEstimate.h"

#include "CastPlacementModel.h"
#include "PlanBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

using Moments = ErrorEstimate::Moments;

/// Number of elements sampled from a constant, evenly spaced.
static constexpr size_t kSample = 4096;

static Moments ofSize(double square, double relative) {
  return {square, square * relative};
}

/// Returns the mean square of a constant's elements. Of a deferred constant it
/// is that of its sources: rounding and movements change it little, and
/// computing the constant takes longer than planning.
static double squareOfConstant(ElementsAttr attr) {
  if (std::optional<double> splat = splatValue(attr))
    return *splat * *splat;
  if (SmallVector<ElementsAttr, 1> sources = deferredSources(attr);
      !sources.empty()) {
    double sum = 0, count = 0;
    for (ElementsAttr source : sources) {
      sum += double(source.getNumElements()) * squareOfConstant(source);
      count += double(source.getNumElements());
    }
    return count > 0 ? sum / count : 1;
  }
  FailureOr<ConstantBytes> data = ConstantBytes::get(attr);
  if (failed(data) || !attr.getElementType().isF32())
    return 1;
  ArrayRef<float> values = data->as<float>();
  size_t step = std::max<size_t>(values.size() / kSample, 1), count = 0;
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += step, ++count)
    sum += double(values[i]) * values[i];
  return count && std::isfinite(sum) ? sum / count : 1;
}

Moments ErrorEstimate::read(Operation *op, unsigned index) const {
  OpOperand &use = op->getOpOperand(index);
  Moments value = get(use.get());
  if (readingOf(plan, use).kind == OperandReading::Kind::Narrow)
    value.error += value.square;
  return value;
}

Moments ErrorEstimate::contraction(Operation *op) const {
  auto terms = cast<ContractionOpInterface>(op).getContractionSize();
  Moments lhs = read(op, 0), rhs = read(op, 1);
  return ofSize(double(std::max<int64_t>(terms, 1)) * lhs.square * rhs.square,
                lhs.relative() + rhs.relative());
}

/// Returns the sum of squares of the `terms` weights that a softmax computes
/// from scores of mean square `square`: the inverse of the effective number of
/// terms.
static double concentration(double square, int64_t terms) {
  return std::min(std::exp(std::min(square, 64.0)) /
                      double(std::max<int64_t>(terms, 1)),
                  1.0);
}

Moments ErrorEstimate::attention(Operation *op) const {
  auto attention = cast<AttentionOp>(op);
  Moments query = read(op, 0), key = read(op, 1), value = read(op, 2);
  double width = attention.getQuery().getType().getShape().back();
  double scale = attention.getScale().convertToDouble();
  double scores = query.square * key.square * width * scale * scale;
  double share = concentration(scores, attention.getContractionSize());
  // A weight's relative error is its score's error; with one dominant term, its
  // weight is 1. Weights are rounded before they multiply.
  double ofScores = scores * (query.relative() + key.relative());
  bool rounds =
      readingOf(plan, op->getOpOperand(2)).kind == OperandReading::Kind::Narrow;
  return ofSize(value.square * share,
                value.relative() + (1 - share) * ofScores + rounds);
}

Moments ErrorEstimate::rowWise(Operation *op) const {
  Moments input = read(op, 0);
  if (op->getNumOperands() == 1) {
    // Softmax and similar ops.
    auto line = dyn_cast<ReductionOpInterface>(op);
    int64_t terms = line ? std::max<int64_t>(line.getReductionSize(), 1) : 1;
    if (!ranges.get(op->getResult(0)).isWithin(0, 1))
      return {input.square + std::pow(std::log(double(terms)), 2), input.error};
    double share = concentration(input.square, terms);
    return ofSize(share / double(terms), (1 - share) * input.error);
  }
  Value scale = op->getOperand(1);
  return ofSize(isa<BlockArgument>(scale) ? 1 : get(scale).square,
                input.relative());
}

Moments ErrorEstimate::elementwise(Operation *op) const {
  double square = 0, error = 0, relative = 0;
  bool isProduct = isa<MulOp>(op), isFirst = true;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isFloatTensor(operand.get()))
      continue;
    Moments value = read(op, operand.getOperandNumber());
    relative += value.relative();
    error += value.error;
    if (op->hasTrait<Additive>())
      square += value.square;
    else if (isFirst)
      square = value.square;
    else
      square =
          isProduct ? square * value.square : std::max(square, value.square);
    isFirst = false;
  }
  if (op->hasTrait<Additive>())
    return {square, error};
  // Each half of the real line within the range: relu keeps one half.
  KnownRange range = ranges.get(op->getResult(0));
  square = (std::min(square, range.low * range.low) +
            std::min(square, range.high * range.high)) /
           2;
  return ofSize(square, relative);
}

Moments ErrorEstimate::moved(Operation *op) const {
  double count = 0;
  Moments sum{0, 0};
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isFloatTensor(value))
      continue;
    double elements = double(std::max<int64_t>(elementCount(value), 1));
    Moments part = read(op, operand.getOperandNumber());
    sum.square += elements * part.square;
    sum.error += elements * part.error;
    count += elements;
  }
  return count > 0 ? Moments{sum.square / count, sum.error / count} : Moments();
}

Moments ErrorEstimate::compute(Operation *op) const {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return {squareOfConstant(constant.getValue()), 0};
  switch (fusionClassOf(op)) {
  case FusionClass::Attention:
    if (isa<AttentionOp>(op))
      return attention(op);
    break;
  case FusionClass::RowWise:
    return rowWise(op);
  case FusionClass::View:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
    return moved(op);
  default:
    break;
  }
  if (isa<ContractionOpInterface>(op))
    return contraction(op);
  return elementwise(op);
}

ErrorEstimate::ErrorEstimate(func::FuncOp func, const PrecisionPlan &plan)
    : plan(plan), ranges(func) {
  StepFunction step(func);
  // Parameters of unknown value have the magnitude of their initialization:
  // weights preserve the magnitude of their operand, biases are zero.
  for (BlockArgument parameter : step.arguments(RoleKind::parameter)) {
    ArrayRef<int64_t> shape = cast<ShapedType>(parameter.getType()).getShape();
    double elements = double(std::max<int64_t>(elementCount(parameter), 1));
    double square = 0;
    if (shape.size() > 1 && shape.front() > 0 && shape.back() > 0)
      square = 2 / (elements / double(shape.front()) +
                    elements / double(shape.back()));
    moments[parameter] = {square, 0};
  }
  Block &body = func.getBody().front();
  for (BlockArgument argument : body.getArguments())
    moments.try_emplace(argument);
  for (Operation &op : body) {
    if (op.getNumResults() == 0)
      continue;
    Moments value = compute(&op);
    for (Value result : op.getResults())
      moments[result] = value;
  }
}
