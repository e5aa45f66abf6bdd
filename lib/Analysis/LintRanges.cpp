//===- LintRanges.cpp - lint of value ranges in 16 bits -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values with statically known bounds (RangeAnalysis) that an op or a cast
// rounds to 16 bits: masks computed from a boolean and a large number, squares
// of clipped values, epsilons and their squares.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Float32Subgraphs.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"

#include "LintContext.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

static bool isSquare(Operation *op) {
  if (auto mul = dyn_cast_if_present<MulOp>(op))
    return beforeCasts(mul.getLhs()) == beforeCasts(mul.getRhs());
  auto power = dyn_cast_if_present<PowOp>(op);
  return power && constantSplat(power.getRhs()) == 2.0;
}

/// Returns true if `end` is finite and rounds to infinity.
static bool overflows(double end, FloatType type) {
  return std::isfinite(end) && std::isinf(roundedTo(end, type));
}

/// Returns the nonzero end of `range` nearest to zero if it rounds to zero.
static std::optional<double> vanishingEnd(KnownRange range, FloatType type) {
  for (double end :
       {range.low > 0 ? range.low : 0.0, range.high < 0 ? range.high : 0.0})
    if (end != 0 && roundedTo(end, type) == 0)
      return end;
  return std::nullopt;
}

/// Returns the override that keeps `result`, which `op` rounds, in f32: of the
/// op that computes in 16 bits. Policies do not name casts: either the readers
/// need the cast, or the preceding op's result was stored narrow.
static std::string fixOf(Operation *op) {
  if (!isa<CastOp>(op))
    return overrideOf(op);
  SmallVector<Operation *> readers;
  for (OpOperand *use : readersOf(op->getResult(0)))
    if (narrowTypeOf(use->get()))
      readers.push_back(use->getOwner());
  if (!readers.empty())
    return overrideOf(readers);
  Operation *producer = beforeCasts(op->getResult(0)).getDefiningOp();
  return overrideOf(producer ? producer : op);
}

namespace {

class RangeLint {
public:
  explicit RangeLint(LintContext &context) : context(context) {}

  void visit(Operation *op, Value result);

private:
  void lintOverflow(Operation *op, Value result, FloatType type);
  void lintFlush(Operation *op, Value result, FloatType type);

  LintContext &context;
  /// Values already reported, before casts (each reader may have one).
  llvm::DenseSet<Value> toldOverflow, toldFlush;
};

} // namespace

/// Returns true if `value` is a quantized number times its scale, which is as
/// large as the value that was quantized, whatever the range of scales.
static bool isRescaled(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isTransparent(op))
      break;
    value = op->getOperand(0);
  }
  auto product = value.getDefiningOp<MulOp>();
  return product && llvm::any_of(product->getOperands(), [](Value factor) {
           Operation *op = factor.getDefiningOp();
           return op && op->hasAttr(kScaleAttr);
         });
}

void RangeLint::lintOverflow(Operation *op, Value result, FloatType type) {
  if (isRescaled(result))
    return;
  KnownRange range = context.ranges.get(result);
  bool low = overflows(range.low, type), high = overflows(range.high, type);
  if (!low && !high)
    return;
  context.overflowed.insert(result);
  Value source = beforeCasts(result);
  if (!toldOverflow.insert(source).second)
    return;
  Operation *maker = source.getDefiningOp();
  Operation *place = maker ? maker : op;
  double end =
      high && (!low || range.high >= -range.low) ? range.high : range.low;
  // An infinite range with an upper bound is clipped on one side only.
  bool mask = low && range.high <= 0;
  std::string text = describe(place) + " reaches " + numberText(end) +
                     ", which " + nameOf(type) + " rounds to " +
                     (end > 0 ? "inf" : "-inf");
  if (mask)
    text += "; a fully masked row has no finite value left";
  context.report(mask ? "mask_overflow" : "range_overflow", place, end, text,
                 fixOf(op));
}

void RangeLint::lintFlush(Operation *op, Value result, FloatType type) {
  std::optional<double> end = vanishingEnd(context.ranges.get(result), type);
  if (!end)
    return;
  context.flushed.insert(result);
  Value source = beforeCasts(result);
  if (!guardsDivision(result) || !toldFlush.insert(source).second)
    return;
  Operation *maker = source.getDefiningOp();
  Operation *place = maker ? maker : op;
  bool square =
      isSquare(maker) &&
      !vanishingEnd(context.ranges.get(beforeCasts(maker->getOperand(0))),
                    type);
  context.report(square ? "epsilon_squared" : "epsilon_flush", place, *end,
                 describe(place) + " may be as small as " + numberText(*end) +
                     ", which " + nameOf(type) +
                     " rounds to 0, and a later op divides by it",
                 fixOf(op));
}

void RangeLint::visit(Operation *op, Value result) {
  auto inherits = [&](llvm::DenseSet<Value> &set) {
    bool has = llvm::any_of(op->getOperands(), [&](Value operand) {
      return set.contains(operand);
    });
    if (has)
      set.insert(result);
    return has;
  };
  if (!isa<ElementwiseOpInterface, MovementOpInterface, OneHotOp>(op))
    return;
  bool hasInfinity = inherits(context.overflowed),
       hasZero = inherits(context.flushed);
  FloatType type = narrowTypeOf(result);
  if (!type)
    return;
  if (!hasInfinity)
    lintOverflow(op, result, type);
  if (!hasZero)
    lintFlush(op, result, type);
}

void mpc::lintRanges(LintContext &context) {
  RangeLint lint(context);
  for (Operation &op : context.body())
    if (!isa<ConstantOp>(op))
      for (Value result : op.getResults())
        if (isa<FloatType>(getElementTypeOrSelf(result.getType())))
          lint.visit(&op, result);
}
