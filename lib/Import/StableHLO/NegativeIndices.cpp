//===- NegativeIndices.cpp - Python-style negative indices ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JAX implements `x[i]` as `select(i < 0, i + extent, i)`, followed by masking
// of indices out of range.
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

std::optional<NegativeIndexPattern> hlo::matchNegativeIndex(OpImport &op,
                                                            Value value) {
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    std::optional<NegativeIndexPattern> inner =
        matchNegativeIndex(op, reshape.getInput());
    if (inner)
      inner->index = op.reshape(inner->index, OpImport::shape(value));
    return inner;
  }
  auto select = value.getDefiningOp<SelectOp>();
  if (!select)
    return std::nullopt;
  auto compare = select.getCondition().getDefiningOp<CompareOp>();
  auto add = select.getOnTrue().getDefiningOp<AddOp>();
  Value index = select.getOnFalse();
  if (!compare || !add || compare.getPredicate() != ComparePredicate::lt ||
      compare.getLhs() != index || constantSplat(compare.getRhs()) != 0.0 ||
      add.getLhs() != index)
    return std::nullopt;
  std::optional<double> extent = constantSplat(add.getRhs());
  if (!extent || *extent < 1)
    return std::nullopt;
  // The index may be a scalar that the other operands broadcast.
  return NegativeIndexPattern{op.broadcast(index, OpImport::shape(value)),
                              int64_t(*extent)};
}

Value hlo::matchNegativeIndexSelect(OpImport &op, ComparePredicate predicate,
                                    Value value, Value bound) {
  std::optional<double> end = constantSplat(bound);
  bool isBegin = predicate == ComparePredicate::ge && end == 0.0;
  if (!isBegin && predicate != ComparePredicate::le)
    return {};
  std::optional<NegativeIndexPattern> counted = matchNegativeIndex(op, value);
  if (!counted || !end)
    return {};
  // value >= 0 is index >= -extent; value <= end is index <= end if end is at
  // least extent - 1, which bounds negative indices.
  if (isBegin)
    end = -double(counted->extent);
  else if (*end < double(counted->extent - 1))
    return {};
  return op.compare(predicate, counted->index,
                    op.scalar(*end, OpImport::element(value)));
}
