//===- MeasuredRanges.cpp - ranges that samples showed --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeasuredRanges.h"

#include "PlanBuilder.h"

#include "mpc/Analysis/KnownRanges.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// The names under which samples know `value`.
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

std::string mpc::measuredOverflow(const Policy &policy, Value value,
                                  FloatType type) {
  if (policy.getRanges().empty() || type.getWidth() >= 32)
    return {};
  SmallVector<StringRef> names = namesOf(value);
  const MeasuredRange *range = policy.rangeOf(names);
  if (!range || std::isfinite(roundedTo(range->largest, type)))
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
