//===- MeasuredRanges.cpp - ranges measured on samples --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeasuredRanges.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/RangeAnalysis.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Returns the names by which samples identify `value`.
static SmallVector<StringRef> namesOf(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    SmallVector<StringRef> names = opNames(op);
    if (names.empty())
      names.push_back(opName(op));
    return names;
  }
  auto argument = cast<BlockArgument>(value);
  auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto name = func ? func.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                       MpcDialect::kNameAttr)
                   : StringAttr();
  return name ? SmallVector<StringRef>{name.getValue()}
              : SmallVector<StringRef>();
}

const MeasuredRange *mpc::measuredRange(const Policy &policy, Value value) {
  return policy.rangeOf(namesOf(value));
}

/// Returns the range that constants alone give `value`, with contractions as
/// zero: sums of products of either sign, centered around their bias. Arguments
/// are unbounded, and so are ops except a few that scale and shift.
static KnownRange constantPart(Value value, unsigned depth = 8) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return {};
  if (isContraction(op))
    return {0, 0};
  auto part = [&](unsigned operand) {
    return constantPart(op->getOperand(operand), depth - 1);
  };
  if (isa<mpc::ConstantOp>(op))
    return cast<RangeOpInterface>(op).getResultRange(0, {});
  if (isa<CastOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp>(op) ||
      isUnaryMovement(op))
    return part(0);
  if (!isa<AddOp, SubOp, MulOp>(op))
    return {};
  KnownRange a = part(0), b = part(1);
  if (!std::isfinite(a.magnitude()) || !std::isfinite(b.magnitude()))
    return {};
  if (isa<AddOp>(op))
    return {a.low + b.low, a.high + b.high};
  if (isa<SubOp>(op))
    return {a.low - b.high, a.high - b.low};
  auto [least, most] = std::minmax(
      {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {least, most};
}

/// Returns "'x' has constant values near 1.28e+05, which f16 rounds to
/// inf"; empty unless constants put all of `value` out of the range of `type`.
static std::string constantOverflow(Value value, FloatType type) {
  KnownRange range = constantPart(value);
  double least = std::max(range.low, -range.high);
  if (least <= 0 || !std::isfinite(least) ||
      std::isfinite(roundedTo(least, type)))
    return {};
  SmallVector<StringRef> names = namesOf(value);
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "'" << (names.empty() ? "value" : names.front())
      << "' has constant values near "
      << llvm::format("%g", range.low > 0 ? range.low : range.high)
      << ", which " << type << " rounds to inf";
  return text;
}

std::string mpc::measuredOverflow(const Policy &policy, Value value,
                                  FloatType type) {
  if (type.getWidth() >= 32)
    return {};
  SmallVector<StringRef> names = namesOf(value);
  const MeasuredRange *range =
      policy.getRanges().empty() ? nullptr : policy.rangeOf(names);
  if (!range)
    return constantOverflow(value, type);
  if (std::isfinite(roundedTo(range->largest, type)))
    return {};
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "'" << names.front() << "' reaches "
      << llvm::format("%g", range->largest);
  if (!range->sample.empty())
    out << " in sample '" << range->sample << "'";
  out << ", which " << type << " rounds to inf";
  return text;
}

std::string mpc::samplesOverflow(const Policy &policy, Operation *op,
                                 FloatType type) {
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isPrecisionOperand(op, operand.getOperandNumber()) ||
        value.getDefiningOp<mpc::ConstantOp>() || !isFloatTensor(value))
      continue;
    if (std::string text = measuredOverflow(policy, value, type); !text.empty())
      return text;
  }
  if (!isContraction(op))
    for (Value result : op->getResults())
      if (isFloatTensor(result))
        if (std::string text = measuredOverflow(policy, result, type);
            !text.empty())
          return text;
  return {};
}
