//===- LintMeasured.cpp - lint of measured ranges -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "LintContext.h"
#include "MeasuredRanges.h"
#include "PlanBuilder.h"

using namespace mlir;
using namespace mpc;

void mpc::lintMeasured(LintContext &context) {
  const Policy &policy = context.policy;
  FloatType store = toFloatType(policy.getStore(), context.func.getContext());
  if (store.getWidth() >= 32)
    return;
  for (Operation &op : context.body()) {
    if (isa<CastOp, mpc::ConstantOp>(op) || op.getNumResults() == 0 ||
        !isFloatTensor(op.getResult(0)))
      continue;
    const MeasuredRange *range = measuredRange(policy, op.getResult(0));
    std::string overflow = measuredOverflow(policy, op.getResult(0), store);
    if (!range || overflow.empty())
      continue;
    bool isKept = !narrowTypeOf(op.getResult(0));
    context.report("measured_overflow", &op, range->largest,
                   isKept ? overflow + ", so it is kept in f32" : overflow,
                   isKept ? "none is needed; a bfloat16 policy can represent it"
                          : overrideOf(&op));
  }
}
