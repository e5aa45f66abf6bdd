//===- IgnoredTargets.cpp - means over valid targets ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IgnoredTargets.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLossOps.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;

/// Strips casts from `value`.
static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  return value;
}

bool IgnoredTargets::followsFromLabels(Value value) const {
  SmallVector<Value> open = {value};
  DenseSet<Value> seen;
  bool reads = false;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      RoleAttr role = step.argumentRole(argument.getArgNumber());
      if (!role || role.getKind() != RoleKind::label)
        return false;
      reads = true;
      continue;
    }
    llvm::append_range(open, next.getDefiningOp()->getOperands());
  }
  return reads;
}

SmallVector<DivOp> IgnoredTargets::meansOf(GradientSeedOp seed) const {
  SmallVector<DivOp> means;
  for (auto division : step.body().getOps<DivOp>())
    if (withoutCasts(division.getLhs()) == seed.getResult() &&
        cast<RankedTensorType>(division.getRhs().getType()).getRank() == 0 &&
        followsFromLabels(division.getRhs()))
      means.push_back(division);
  return means;
}

void IgnoredTargets::moveToFront(Value value, Operation *&last) const {
  Operation *op = value.getDefiningOp();
  if (!op || (last && (op == last || op->isBeforeInBlock(last))))
    return;
  for (Value operand : op->getOperands())
    moveToFront(operand, last);
  if (last)
    op->moveAfter(last);
  else if (op != &step.body().front())
    op->moveBefore(&step.body().front());
  last = op;
}

Value IgnoredTargets::partOf(Value loss, Value own, Value all) const {
  OpBuilder builder(loss.getContext());
  builder.setInsertionPointAfterValue(loss);
  Location loc = loss.getLoc();
  Type element = getElementTypeOrSelf(loss.getType());
  auto scalar = cast<RankedTensorType>(loss.getType());
  auto number = [&](double value) -> Value {
    return mpc::ConstantOp::create(builder, loc, scalarOf(element, value));
  };
  auto as = [&](Value value) -> Value {
    return value.getType() == scalar
               ? value
               : CastOp::create(builder, loc, scalar, value, /*pinned=*/false)
                     .getResult();
  };
  own = as(own), all = as(all);
  Value weight = DivOp::create(
      builder, loc, MulOp::create(builder, loc, own, number(double(ranks))),
      all);
  // The mean over no targets is NaN, but has weight zero.
  Value counts =
      CompareOp::create(builder, loc, ComparePredicate::gt, own, number(0.0));
  return SelectOp::create(builder, loc, counts,
                          MulOp::create(builder, loc, loss, weight), weight);
}

LogicalResult IgnoredTargets::join(GradientSeedOp seed, Value share) {
  SmallVector<SoftmaxCrossEntropyOp> losses;
  for (auto loss : step.body().getOps<SoftmaxCrossEntropyOp>())
    if (loss.getIgnoreIndex())
      losses.push_back(loss);
  SmallVector<DivOp> means;
  if (!losses.empty())
    means = meansOf(seed);
  seed.getResult().replaceAllUsesExcept(share, share.getDefiningOp());
  if (losses.empty())
    return success();
  if (means.empty())
    return losses.front()->emitOpError(
        "ignores targets, whose number differs between ranks, and the divisor "
        "of its gradient is not found; train on one rank");
  llvm::SmallMapVector<Value, Value, 1> sums;
  for (DivOp mean : means) {
    Value own = mean.getRhs();
    OpBuilder builder(mean);
    // Not the rank's share: the divisor counts the global batch.
    Value begin = seed.getResult();
    if (begin.getType() != mean.getLhs().getType())
      begin = CastOp::create(builder, mean.getLoc(), mean.getLhs().getType(),
                             begin, /*pinned=*/false);
    mean.getLhsMutable().assign(begin);
    Value &all = sums[own];
    if (!all) {
      Operation *last = nullptr;
      moveToFront(own, last);
      builder.setInsertionPointAfterValue(own);
      all = AllReduceOp::create(
                builder, NameLoc::get(builder.getStringAttr("counted_targets")),
                TypeRange(own.getType()), ValueRange(own), RankReduction::sum,
                uint64_t(ranks),
                getElementTypeOrSelf(own).getIntOrFloatBitWidth() < 32
                    ? TypeAttr::get(builder.getF32Type())
                    : TypeAttr())
                .getOutputs()
                .front();
    }
    mean.getRhsMutable().assign(all);
  }
  for (unsigned number : step.results(RoleKind::loss)) {
    Value loss = step.result(number);
    auto op = withoutCasts(loss).getDefiningOp<SoftmaxCrossEntropyOp>();
    if (op && llvm::is_contained(losses, op))
      step.setResult(number,
                     partOf(loss, sums.front().first, sums.front().second));
  }
  return success();
}
