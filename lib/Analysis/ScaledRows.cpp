//===- ScaledRows.cpp - 8-bit numbers times a scale of their row ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A number of 8 bits is exact in every float, its product with a scale is not:
// rounded to 16 bits for attention it would lose as much again as it lost on
// its way into the cache. Attention that keeps the two apart rounds neither.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/ScaledRows.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/Fusion/FusionMovement.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

std::optional<ScaledRows> ScaledRows::of(Value tensor) {
  ScaledRows rows;
  auto take = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op)
      rows.chain.push_back(op);
    return op;
  };
  Operation *op = take(tensor);
  while (op && ((isa<TransposeOp>(op) && keepsLastDimension(op)) ||
                (isa<CastOp>(op) && isFloatTensor(op->getOperand(0)))))
    op = take(op->getOperand(0));
  auto product = dyn_cast_if_present<MulOp>(op);
  if (!product)
    return std::nullopt;
  rows.numbers = product.getLhs();
  rows.scales = product.getRhs();
  ArrayRef<int64_t> shape = shapeOf(rows.numbers),
                    scales = shapeOf(rows.scales);
  if (scales.size() != shape.size() || shape.empty() ||
      scales.drop_back() != shape.drop_back() || scales.back() != 1)
    return std::nullopt;
  op = take(rows.numbers);
  if (!op || !(isa<DecodeFloat8Op>(op) ||
               (isa<CastOp>(op) &&
                getElementTypeOrSelf(op->getOperand(0)).isInteger(8))))
    return std::nullopt;
  return rows;
}

bool ScaledRows::isRounded() const {
  return llvm::any_of(chain, [](Operation *op) {
    return isa<CastOp>(op) && isFloatTensor(op->getOperand(0));
  });
}

void mpc::settleScaledRows(PlanBuilder &builder) {
  // Such targets' attention takes the rows into its kernel
  // (GroupRules::joinScaledRows), others' multiplies fragments of 16 bits.
  if (builder.target.machine.kernels().mapsOperands)
    return;
  for (Operation &op : builder.body()) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention || !builder.findPlan(&op))
      continue;
    OpPlan &plan = builder.planOf(&op);
    if (plan.role != OpPlan::Role::Multiply || plan.isForced() ||
        plan.compute.getWidth() >= 32 || !ScaledRows::of(attention.getKey()) ||
        !ScaledRows::of(attention.getValue()))
      continue;
    builder.setRounding(&op, 0, plan.compute);
    plan.compute = plan.result = builder.wide;
    plan.unrounded = OpPlan::Unrounded::All;
    plan.reason = "keys and values of 8 bits are not rounded again";
  }
}
