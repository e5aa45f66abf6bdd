//===- RunningSumPrices.cpp - price of rounding a running sum -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/Explanation/PrecisionAssignment.md derives the formula.
//
//===----------------------------------------------------------------------===//

#include "RunningSumPrices.h"

#include "CastPlacementModel.h"
#include "ErrorEstimate.h"
#include "PlanBuilder.h"
#include "StorageRules.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

/// Maximum ratio of the mean-square error added by roundings to that of the
/// sum's terms: three would double the error.
static constexpr double kTolerated = 2;
/// Outweighs any cast.
static constexpr double kLargestPrice = 16;

/// Returns true if `op` computes a partial sum, or moves one.
static bool passesSum(const PlanBuilder &builder, Operation *op) {
  return op->hasTrait<Additive>() || isMove(builder.getPlan(), op);
}

/// Returns the result of `op` if it continues the sum that `use` reads; else
/// null.
static Value sumBehind(const PlanBuilder &builder, OpOperand &use) {
  Operation *op = use.getOwner();
  if (op->getNumResults() == 0 || !builder.isEligible(op->getResult(0)) ||
      !passesSum(builder, op) ||
      readingOf(builder.getPlan(), use).kind == OperandReading::Kind::Narrow)
    return {};
  return op->getResult(0);
}

RunningSumPrices::RunningSumPrices(const PlanBuilder &builder,
                                   const CastPlacementModel &model,
                                   const StorageRules &rules) {
  // Moves and the first summand are no partial sums.
  auto isPartialSum = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && op->hasTrait<Additive>() && !rules.isHigh(value) &&
           !model.isInternal(value) && model.lowType(value) &&
           model.demandOf(value).wide;
  };
  for (Value value : model.getValues()) {
    Operation *op = value.getDefiningOp();
    unsigned most = 0;
    if (op && passesSum(builder, op))
      for (OpOperand &operand : op->getOpOperands())
        if (sumBehind(builder, operand) == value)
          most = std::max(most, before.lookup(operand.get()));
    before[value] = most + isPartialSum(value);
  }

  ErrorEstimate estimate(builder.func, builder.getPlan());
  llvm::DenseMap<Value, double> errorAtEnd;
  for (Value value : llvm::reverse(model.getValues())) {
    double error = 0;
    bool isAddedTo = false;
    for (OpOperand &use : value.getUses())
      if (Value sum = sumBehind(builder, use)) {
        after[value] =
            std::max(after[value], after.lookup(sum) + isPartialSum(sum));
        error = std::max(error, errorAtEnd.lookup(sum));
        isAddedTo = true;
      }
    ErrorEstimate::Moments moments = estimate.get(value);
    errorAtEnd[value] = isAddedTo ? error : moments.error;
    unsigned roundings = roundingsThrough(value);
    if (!isAddedTo || roundings < 2)
      continue;
    double added = (roundings - 1) * moments.square;
    prices[value] = added < kLargestPrice * kTolerated * error
                        ? added / (kTolerated * error)
                        : kLargestPrice;
  }
}
