//===- OpTypes.cpp - type names for reports -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpTypes.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"

using namespace mlir;
using namespace mpc;

std::string mpc::typeName(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << getElementTypeOrSelf(type);
  return text;
}

std::string mpc::computeTypeName(Operation *op) {
  if (auto contraction = dyn_cast<ContractionOpInterface>(op))
    if (contraction.getComputeMode() != ComputeMode::native)
      return stringifyComputeMode(contraction.getComputeMode()).str();
  for (Value operand : op->getOperands())
    if (isa<FloatType>(getElementTypeOrSelf(operand.getType())))
      return typeName(operand.getType());
  return typeName(op->getResult(0).getType());
}

std::optional<std::string> mpc::accumulateTypeName(Operation *op) {
  if (auto contraction = dyn_cast<ContractionOpInterface>(op))
    return typeName(contraction.getAccumulateType());
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return typeName(reduction.getAccumulateType());
  return std::nullopt;
}

DecisionAttr mpc::decisionOf(Operation *op) {
  return dyn_cast_if_present<DecisionAttr>(
      op->getDiscardableAttr(MpcDialect::kDecisionAttr));
}

bool mpc::isInsertedCast(Operation *op) {
  return isa<CastOp>(op) && !decisionOf(op);
}

static bool isHalfTensor(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

Type mpc::storageType(Value result) {
  Type own = getElementTypeOrSelf(result.getType());
  // A widening cast belongs to its reader.
  if (isHalfTensor(own))
    return own;
  Type common;
  for (Operation *reader : result.getUsers()) {
    Type type = isInsertedCast(reader)
                    ? getElementTypeOrSelf(reader->getResult(0).getType())
                    : Type();
    if (!type || (common && common != type))
      return own;
    common = type;
  }
  return common ? common : own;
}
