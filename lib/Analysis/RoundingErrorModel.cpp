//===- RoundingErrorModel.cpp - roundings of a precision plan -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stored value is rounded once for all its readers; a 16-bit reader rounds a
// value stored in f32. A rounded value is not rounded again.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/RoundingErrorModel.h"

#include "CastPlacementModel.h"

#include "mpc/Analysis/PlannedRoundings.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

using namespace mlir;
using namespace mpc;

/// Returns the type to which a reader of `use` rounds an unrounded value; null
/// if it reads it as is.
static FloatType roundingOf(const PrecisionPlan &plan, OpOperand &use) {
  Operation *op = use.getOwner();
  OperandReading reading = readingOf(plan, use);
  switch (reading.kind) {
  case OperandReading::Kind::Narrow:
    return reading.type;
  case OperandReading::Kind::Moved:
    for (Value result : op->getResults())
      if (plan.isEligible(result))
        return isNarrow(plan.getStorage(result)) ? plan.getStorage(result)
                                                 : FloatType();
    return {};
  default:
    break;
  }
  bool isTf32 =
      plan.hasPlan(op) && plan.getPlan(op).mode == ComputeMode::tf32 &&
      cast<PrecisionOpInterface>(op).isPrecisionOperand(use.getOperandNumber());
  return isTf32 ? FloatType(FloatTF32Type::get(op->getContext())) : FloatType();
}

void mpc::forEachRounding(func::FuncOp function, const PrecisionPlan &plan,
                          function_ref<void(const PlannedRounding &)> visit) {
  auto look = [&](Value value) {
    if (!plan.isEligible(value))
      return;
    bool isConstant = value.getDefiningOp<mpc::ConstantOp>() != nullptr;
    FloatType stored = isConstant ? FloatType() : plan.getStorage(value);
    if (isNarrow(stored)) {
      // A moved value is rounded at its source, or at the move.
      if (!value.getDefiningOp() || !isMove(plan, value.getDefiningOp()))
        visit({value, nullptr, stored});
      return;
    }
    for (OpOperand &use : value.getUses())
      if (FloatType type = roundingOf(plan, use))
        visit({value, &use, type});
  };
  Block &body = function.getBody().front();
  llvm::for_each(body.getArguments(), look);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), look);
}
