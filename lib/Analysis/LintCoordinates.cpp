//===- LintCoordinates.cpp - lint of angles and indices in 16 bits --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mpc's own lists keep angles, coordinates and index arithmetic in f32.
// Overrides and presets that imitate other frameworks may compute them in 16
// bits.
//
//===----------------------------------------------------------------------===//

#include "LintContext.h"

#include "mpc/Analysis/Float32Subgraphs.h"

using namespace mlir;
using namespace mpc;

/// Returns the 16-bit type that `op` reads or yields under the policy; null if
/// there is none.
static FloatType policyTypeOf(Operation *op) {
  auto decision = op->getAttrOfType<DecisionAttr>(MpcDialect::kDecisionAttr);
  if (!decision || decision.getRule() == "untouched" ||
      decision.getRule() == "pin" || isTransparent(op))
    return {};
  for (ValueRange values :
       {ValueRange(op->getResults()), ValueRange(op->getOperands())})
    for (Value value : values)
      if (FloatType type = narrowTypeOf(value))
        return type;
  return {};
}

void mpc::lintCoordinates(LintContext &context) {
  IntegerValuedFloats integers(context.func);
  OpSet angles = findAngleOps(context.func);
  // The first op of a chain represents the later ones.
  llvm::DenseSet<Operation *> reported;
  for (Operation &op : context.body()) {
    bool isAngle = angles.contains(&op);
    auto feeds = [&](Value value) { return integers.feedsIntegers(value); };
    if (!isAngle && !isIndexArithmetic(&op, feeds))
      continue;
    if (llvm::any_of(op.getOperands(), [&](Value value) {
          return reported.contains(value.getDefiningOp());
        })) {
      reported.insert(&op);
      continue;
    }
    FloatType type = policyTypeOf(&op);
    bool isReported =
        llvm::any_of(context.warnings, [&](const LintWarning &warning) {
          return warning.op == &op;
        });
    if (!type || isReported)
      continue;
    reported.insert(&op);
    double limit = exactIntegerLimit(type);
    context.report(
        "coordinate_rounded", &op, 1 / limit,
        describe(&op) + " computes " +
            (isAngle ? "an angle" : "a value that becomes an index") + " in " +
            nameOf(type) + ", with a relative error of up to 1/" +
            numberText(limit),
        overrideOf(&op));
  }
}
