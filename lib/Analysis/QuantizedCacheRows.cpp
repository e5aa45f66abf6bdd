//===- QuantizedCacheRows.cpp - rows of a quantized KV cache --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An 8-bit number is exact in every float, its product with a scale is not:
// rounded to 16 bits for attention, the error would be as large as that of the
// quantization. Attention that reads numbers and scales separately rounds
// neither.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/QuantizedCacheRows.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

std::optional<QuantizedCacheRows> QuantizedCacheRows::of(Value tensor) {
  QuantizedCacheRows rows;
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
  if (!op || !(isa<DecodeFloatOp>(op) ||
               (isa<CastOp>(op) &&
                getElementTypeOrSelf(op->getOperand(0)).isInteger(8))))
    return std::nullopt;
  return rows;
}

bool QuantizedCacheRows::isRounded() const {
  return llvm::any_of(chain, [](Operation *op) {
    return isa<CastOp>(op) && isFloatTensor(op->getOperand(0));
  });
}

/// Plans the products with scales in f32: f16 cannot represent all scales.
static void multiplyWide(PlanBuilder &builder, const QuantizedCacheRows &rows) {
  for (Operation *op : rows.chain) {
    const OpPlan *plan = builder.findPlan(op);
    if (!plan || !isa<MulOp, DecodeFloatOp>(op) ||
        plan->role == OpPlan::Role::Untouched || plan->isForced())
      continue;
    OpPlan &wide = builder.planOf(op);
    wide.role = OpPlan::Role::Compute;
    wide.compute = wide.result = builder.wide;
    wide.cls = PrecisionClass::High;
    wide.rule = stringify(wide.cls).str();
    wide.reason = "scales of rows are f32";
  }
}

void mpc::planQuantizedCacheRows(PlanBuilder &builder) {
  for (Operation &op : builder.body()) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention || !builder.findPlan(&op))
      continue;
    std::optional<QuantizedCacheRows> key = QuantizedCacheRows::of(
                                          attention.getKey()),
                                      value = QuantizedCacheRows::of(
                                          attention.getValue());
    if (!key || !value)
      continue;
    multiplyWide(builder, *key);
    multiplyWide(builder, *value);
    // Attention kernels of such targets dequantize the rows themselves
    // (FusionRules::joinScaledRows); others multiply 16-bit fragments.
    OpPlan &plan = builder.planOf(&op);
    if (builder.target.machine.kernels().fusesOperandMovement ||
        plan.role != OpPlan::Role::Multiply || plan.isForced() ||
        plan.compute.getWidth() >= 32)
      continue;
    builder.setRounding(&op, 0, plan.compute);
    plan.compute = plan.result = builder.wide;
    plan.unrounded = OpPlan::Unrounded::All;
    plan.reason = "8-bit keys and values are not rounded again";
  }
}
