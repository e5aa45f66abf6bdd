//===- SumPrices.cpp - what rounding a running sum costs ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/Rationale/PrecisionAssignment.md derives the formula.
//
//===----------------------------------------------------------------------===//

#include "SumPrices.h"

#include "ErrorEstimate.h"
#include "PlacementModel.h"
#include "PlanBuilder.h"
#include "StorageRules.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

/// How many times the error that a sum's terms bring along its roundings may
/// add, both as mean squares: three would double the error.
static constexpr double kTolerated = 2;
/// Enough to outweigh any cast.
static constexpr double kLargestPrice = 16;

/// Whether `op` makes a partial sum, or moves one.
static bool passesSum(const PlanBuilder &builder, Operation *op) {
  return op->hasTrait<Additive>() || isMove(builder.getPlan(), op);
}

/// What `op` makes of the sum that it reads as `use`, where that is still one;
/// null elsewhere.
static Value sumBehind(const PlanBuilder &builder, OpOperand &use) {
  Operation *op = use.getOwner();
  if (op->getNumResults() == 0 || !builder.isEligible(op->getResult(0)) ||
      !passesSum(builder, op) ||
      readingOf(builder.getPlan(), use).kind == Reading::Kind::Narrow)
    return {};
  return op->getResult(0);
}

SumPrices::SumPrices(const PlanBuilder &builder, const PlacementModel &model,
                     const StorageRules &rules) {
  // What only moves a sum, and what stands at its beginning, is no partial sum.
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
