//===- LintSums.cpp - lint of 16-bit accumulation -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A running sum in 16 bits stagnates once an addend is less than half a unit in
// its last place: with equal addends after 2048 (f16) or 256 (bf16) of them.
//
//===----------------------------------------------------------------------===//

#include "LintContext.h"

using namespace mlir;
using namespace mpc;

static void lintSum(LintContext &context, Operation *op, Type accumulate,
                    int64_t size) {
  auto type = dyn_cast<FloatType>(accumulate);
  if (!type || type.getWidth() != 16 || double(size) <= exactIntegerLimit(type))
    return;
  context.report("sum_too_long", op, double(size),
                 describe(op) + " adds " + std::to_string(size) +
                     " numbers in " + nameOf(type) +
                     ", where a sum of equal numbers stops growing after " +
                     numberText(exactIntegerLimit(type)),
                 overrideOf(op));
}

void mpc::lintSums(LintContext &context) {
  for (Operation &op : context.body()) {
    if (op.hasTrait<SumsElements>()) {
      auto reduction = cast<ReductionOpInterface>(op);
      lintSum(context, &op, reduction.getAccumulateType(),
              reduction.getReductionSize());
    } else if (auto contraction = dyn_cast<ContractionOpInterface>(op)) {
      lintSum(context, &op, contraction.getAccumulateType(),
              contraction.getContractionSize());
    }
  }
}
