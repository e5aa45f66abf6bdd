//===- Sensitivity.cpp - first-order sensitivity to rounding --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/Sensitivity.h"

#include "../Reference/RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

Sensitivity::Sensitivity(func::FuncOp function, Budget::Measure measure,
                         uint64_t seed)
    : function(function), measure(measure), generator(seed), walk(function) {
  MLIRContext *context = function.getContext();
  types = {Float16Type::get(context), BFloat16Type::get(context),
           FloatTF32Type::get(context), Float32Type::get(context)};
}

/// Returns the change of the outputs by rounding for these cotangents: the sum
/// of squares and the sum of changes. Calls of `round` are inlined.
template <typename Round>
static std::pair<double, double>
changeBy(ArrayRef<double> values, ArrayRef<double> cotangents, Round round) {
  double squares = 0, sum = 0;
  for (auto [x, slope] : llvm::zip_equal(values, cotangents)) {
    if (!std::isfinite(x))
      continue;
    double change = round(x) - x;
    // The first-order model does not cover infinities.
    if (std::isinf(change))
      return {INFINITY, INFINITY};
    double part = slope * change;
    // Cotangents after non-finite values are meaningless.
    if (!std::isfinite(part))
      continue;
    squares += part * part;
    sum += part;
  }
  return {squares, sum};
}

void Sensitivity::add(Shares &shares, const Tensor &value,
                      const Tensor &cotangent, double weight) const {
  for (auto [type, share] : llvm::zip_equal(types, shares)) {
    auto change = [&](auto round) {
      return changeBy(value.floats(), cotangent.floats(), round);
    };
    auto [squares, sum] =
        type.isTF32() ? change(reference::roundToTf32)
                      : reference::withRounding(reference::Rounding::Declared,
                                                type, change);
    share.apart += weight * squares;
    share.together += weight * sum * sum;
  }
}

bool Sensitivity::consider(Operation *op, const StoredWeights &stored) {
  ConstantOp constant = weightsOf(op);
  std::optional<WeightColumns> columns =
      constant ? WeightColumns::of(op) : std::nullopt;
  std::optional<std::vector<float>> values =
      columns ? finiteWeights(constant) : std::nullopt;
  if (!values)
    return false;
  // 16-bit formats are covered by the shares of uses.
  if (!stored.format.isScaled())
    return true;
  RoundedWeights rounded{stored.format, stored.bits, *values, {}};
  columns->round(op->getContext(), rounded.changes, stored);
  for (auto [change, value] : llvm::zip_equal(rounded.changes, *values))
    change -= value;
  weights[op].push_back(std::move(rounded));
  return true;
}

void Sensitivity::considerOperands(OperandChanges &changes) {
  operands = &changes;
  for (const OperandChanges::Operand &operand : changes.getOperands())
    operandShares[operand];
}

/// Adds the change of the outputs by `changes`, for these cotangents.
static void addChange(ArrayRef<float> changes, ArrayRef<double> cotangents,
                      double weight, double &apart, double &together) {
  double squares = 0, sum = 0;
  for (auto [slope, change] : llvm::zip_equal(cotangents, changes)) {
    double part = slope * change;
    if (!std::isfinite(part))
      continue;
    squares += part * part;
    sum += part;
  }
  apart += weight * squares;
  together += weight * sum * sum;
}

void Sensitivity::addOperands(OpOperand &use, const Tensor &cotangent,
                              double weight) {
  OperandChanges::Operand operand(use.getOwner(), use.getOperandNumber());
  auto changes = operandChanges.find(operand);
  if (changes == operandChanges.end())
    return;
  Share &share = operandShares[operand];
  addChange(changes->second, cotangent.floats(), weight, share.apart,
            share.together);
}

void Sensitivity::addWeights(OpOperand &use, const Tensor &cotangent,
                             double weight) {
  auto found = weights.find(use.getOwner());
  if (found == weights.end() || use.getOperandNumber() != 1)
    return;
  for (RoundedWeights &rounded : found->second)
    addChange(rounded.changes, cotangent.floats(), weight, rounded.share.apart,
              rounded.share.together);
}

FailureOr<SmallVector<Tensor>>
Sensitivity::addSample(ArrayRef<Tensor> arguments, int draws,
                       const ForwardValues::Observer &observer) {
  FailureOr<ForwardValues> forward =
      ForwardValues::run(function, arguments, observer);
  if (failed(forward))
    return failure();
  return addSample(*forward, draws);
}

FailureOr<SmallVector<Tensor>> Sensitivity::addSample(ForwardValues &forward,
                                                      int draws) {
  FailureOr<SmallVector<Tensor>> outputs = forward.results(function);
  if (failed(outputs))
    return failure();
  double weight = 1.0 / draws;
  bool wasRead = true;
  if (operands) {
    FailureOr<OperandChanges::Changes> found = operands->run(forward);
    if (failed(found))
      return failure();
    operandChanges = std::move(*found);
  }
  for (int draw = 0; draw < draws; ++draw) {
    auto onUse = [&](OpOperand &use, const Tensor &cotangent) {
      const Tensor *value = forward.get(use.get());
      wasRead &= value != nullptr;
      if (value)
        add(uses[{use.getOwner(), use.getOperandNumber()}], *value, cotangent,
            weight);
      addWeights(use, cotangent, weight);
      addOperands(use, cotangent, weight);
    };
    auto onValue = [&](Value value, const Tensor &cotangent) {
      add(values[value], *forward.get(value), cotangent, weight);
    };
    std::vector<std::optional<Tensor>> seeds(outputs->size());
    if (output)
      seeds[*output] = std::move(
          generateSeeds(measure, (*outputs)[*output], generator).front());
    else
      seeds = generateSeeds(measure, *outputs, generator);
    if (failed(walk.run(forward, seeds, onUse, onValue)))
      return failure();
  }
  if (!wasRead)
    return function.emitOpError("reads a constant that cannot be read");
  operandChanges.clear();
  ++samples;
  drawn += draws;
  return outputs;
}

/// Returns true if a mean of `count` squares of standard normal numbers is
/// significant at one percent (Wilson and Hilferty).
static bool isNoChance(double mean, int64_t count) {
  constexpr double kDeviations = 2.6;
  double part = 2 / (9 * double(count));
  double low = 1 - part - kDeviations * std::sqrt(part),
         high = 1 - part + kDeviations * std::sqrt(part);
  return mean > high * high * high || (low > 0 && mean < low * low * low);
}

double Sensitivity::mean(const Share &share) const {
  if (samples == 0)
    return 0;
  bool depends = share.apart > 0 && std::isfinite(share.apart) &&
                 isNoChance(share.together / share.apart, drawn);
  return (depends ? share.together : share.apart) / double(samples);
}

double Sensitivity::mean(const Shares &shares, FloatType type) const {
  for (auto [known, share] : llvm::zip_equal(types, shares))
    if (known == type)
      return mean(share);
  return 0;
}

double Sensitivity::ofValue(Value value, FloatType type) const {
  return mean(values.lookup(value), type);
}

double Sensitivity::ofUse(OpOperand &use, FloatType type) const {
  return mean(uses.lookup({use.getOwner(), use.getOperandNumber()}), type);
}

double Sensitivity::ofWeights(Operation *op, const WeightFormat &format,
                              int bits) const {
  OpOperand &use = op->getOpOperand(1);
  if (format.type == WeightType::Float16)
    return ofUse(use, Float16Type::get(op->getContext()));
  if (format.type == WeightType::BFloat16)
    return ofUse(use, BFloat16Type::get(op->getContext()));
  auto found = weights.find(op);
  if (found == weights.end())
    return 0;
  for (const RoundedWeights &rounded : found->second)
    if (rounded.bits == bits && rounded.format.describe() == format.describe())
      return mean(rounded.share);
  return 0;
}

double Sensitivity::ofOperands(Operation *op) const {
  double error = 0;
  for (const auto &[operand, share] : operandShares)
    if (operand.first == op)
      error += mean(share);
  return error;
}

template <typename Visit> void Sensitivity::forAll(Visit visit) {
  auto visitAll = [&](Shares &shares) { llvm::for_each(shares, visit); };
  auto visitValue = [&](Value value) {
    if (!isa<FloatType>(getElementTypeOrSelf(value)))
      return;
    visitAll(values[value]);
    for (OpOperand &use : value.getUses())
      visitAll(uses[{use.getOwner(), use.getOperandNumber()}]);
  };
  Block &body = function.getBody().front();
  llvm::for_each(body.getArguments(), visitValue);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), visitValue);
  for (auto &[op, forms] : weights)
    for (RoundedWeights &rounded : forms)
      visit(rounded.share);
  for (auto &[operand, share] : operandShares)
    visit(share);
}

std::vector<double> Sensitivity::save() {
  std::vector<double> numbers = {double(samples), double(drawn)};
  forAll([&](const Share &share) {
    numbers.insert(numbers.end(), {share.apart, share.together});
  });
  return numbers;
}

bool Sensitivity::restore(ArrayRef<double> numbers) {
  size_t count = 0;
  forAll([&](Share &) { ++count; });
  if (numbers.size() != 2 + 2 * count)
    return false;
  samples = int64_t(numbers[0]);
  drawn = int64_t(numbers[1]);
  const double *next = numbers.data() + 2;
  forAll([&](Share &share) {
    share.apart = *next++;
    share.together = *next++;
  });
  return true;
}
