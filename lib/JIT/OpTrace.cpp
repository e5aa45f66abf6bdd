//===- OpTrace.cpp - op-by-op comparison in the oracle --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpTrace.h"

#include "KnownValues.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Reference/Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

/// Discardable integer attribute with an op's number.
static constexpr llvm::StringLiteral kNumber = "mpc.number";

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

void mpc::numberOps(func::FuncOp function) {
  int64_t next = 0;
  Builder builder(function.getContext());
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<ConstantOp>(op) && op.getNumResults() > 0)
      op.setDiscardableAttr(kNumber, builder.getI64IntegerAttr(next++));
}

int64_t mpc::numberOf(Operation *op) {
  auto number =
      dyn_cast_if_present<IntegerAttr>(op->getDiscardableAttr(kNumber));
  return number ? number.getInt() : -1;
}

void mpc::clearNumber(Operation *op) { op->removeDiscardableAttr(kNumber); }

OpObserver OpValues::observer() {
  return [this](Operation *op, ArrayRef<Tensor> results) {
    int64_t number = numberOf(op);
    if (number >= 0 && !results.empty())
      values.insert_or_assign(number, results.front());
  };
}

const Tensor *OpValues::find(int64_t number) const {
  auto found = values.find(number);
  return found == values.end() ? nullptr : &found->second;
}

//===----------------------------------------------------------------------===//
// Overflows
//===----------------------------------------------------------------------===//

std::string Overflow::text() const {
  return "'" + op + "' (" + kind + ", " + type +
         (layer.empty() ? "" : ", layer " + layer) + ")";
}

/// Returns true if an element of `value` is non-finite but finite in `wanted`.
static bool leavesRange(const Tensor &value, const Tensor &wanted) {
  if (value.floats().size() != wanted.floats().size())
    return false;
  for (auto [element, truth] : llvm::zip(value.floats(), wanted.floats()))
    if (!std::isfinite(element) && std::isfinite(truth))
      return true;
  return false;
}

/// Returns the input of the chain of casts that ends in `op`; the op's own
/// result if it is not a cast.
static Value sourceOf(Operation *op) {
  Value value = op->getResult(0);
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (numberOf(cast) >= 0)
      break;
    value = cast.getInput();
  }
  return value;
}

static std::string nameOfSource(Value source) {
  if (Operation *op = source.getDefiningOp())
    return opName(op).str();
  auto argument = cast<BlockArgument>(source);
  return argumentName(cast<func::FuncOp>(argument.getOwner()->getParentOp()),
                      argument.getArgNumber());
}

static std::string kindOf(Operation *op) {
  if (auto precision = dyn_cast<PrecisionOpInterface>(op))
    return precision.getPrecisionKind().str();
  return op->getName().stripDialect().str();
}

void OverflowFinder::look(Operation *op, const Tensor &result) {
  if (found || !result.isFloat())
    return;
  Value source = sourceOf(op);
  bool leaves = false;
  if (auto argument = dyn_cast<BlockArgument>(source)) {
    leaves = leavesRange(result, arguments[argument.getArgNumber()]);
  } else if (auto constant = source.getDefiningOp<ConstantOp>()) {
    FailureOr<Tensor> value = Tensor::fromAttr(constant.getValue());
    leaves = succeeded(value) && leavesRange(result, *value);
  } else if (const Tensor *truth =
                 wanted.find(numberOf(source.getDefiningOp()))) {
    leaves = leavesRange(result, *truth);
  }
  if (!leaves)
    return;
  Operation *named = source.getDefiningOp();
  std::string type;
  llvm::raw_string_ostream(type) << result.getElementType();
  found = Overflow{nameOfSource(source),
                   source == op->getResult(0) ? kindOf(op) : "cast",
                   named ? layerPath(named).str() : "", type};
}

OpObserver OverflowFinder::observer() {
  return [this](Operation *op, ArrayRef<Tensor> results) {
    if (!results.empty())
      look(op, results.front());
  };
}
