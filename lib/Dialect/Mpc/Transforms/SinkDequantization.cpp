//===- SinkDequantization.cpp - sink dequantization below moves -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// QDQ models dequantize and requantize around ops that only move or compare
// values. Both conversions are monotone and uniform, so the op can work on int8
// and the conversions cancel. Runs before integer matmuls are recognized, which
// match dequantization at their operands.
//
//===----------------------------------------------------------------------===//

#include "Int8Values.h"

#include "MatchUtils.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_SINKDEQUANTIZATIONPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

namespace {

/// Returns the value of a scalar constant, looking through casts and reshapes.
std::optional<double> numberOf(Value value) {
  while (isa_and_present<CastOp, ReshapeOp>(value.getDefiningOp()) &&
         !isa<FloatType>(getElementTypeOrSelf(value.getType())))
    value = value.getDefiningOp()->getOperand(0);
  return elementCount(value) == 1 ? splatValue(value) : std::nullopt;
}

/// Per-tensor dequantization: scale * (bytes - zero).
struct PerTensorDequantization {
  Value bytes;
  double scale = 1, zero = 0;
  /// Ops in order from the bytes.
  SmallVector<Operation *> ops;
};

std::optional<PerTensorDequantization> matchDequantization(Value value) {
  PerTensorDequantization found;
  auto step = [&](Operation *op, Value before) {
    if (shapeOf(before) != shapeOf(value))
      return false;
    found.ops.insert(found.ops.begin(), op);
    value = before;
    return true;
  };
  if (auto product = value.getDefiningOp<MulOp>()) {
    std::optional<double> scale = numberOf(product.getRhs());
    // Range in which products with 8-bit integers are exact enough.
    if (!scale || *scale < 1e-30 || *scale > 1e30 ||
        !step(product, product.getLhs()))
      return std::nullopt;
    found.scale = *scale;
  }
  auto cast = value.getDefiningOp<CastOp>();
  Type element = getElementTypeOrSelf(value.getType());
  if (!cast || (!element.isF32() && !element.isF64()) ||
      !step(cast, cast.getInput()))
    return std::nullopt;
  if (auto difference = value.getDefiningOp<SubOp>()) {
    std::optional<double> zero = numberOf(difference.getRhs());
    if (!zero || !holdsDifferences(value) ||
        !step(difference, difference.getLhs()))
      return std::nullopt;
    found.zero = *zero;
  }
  if (auto wide = value.getDefiningOp<CastOp>();
      wide && isByte(wide.getInput()) && holdsDifferences(value))
    step(wide, wide.getInput());
  if (!isByte(value))
    return std::nullopt;
  found.bytes = value;
  return found;
}

/// Returns true if every window overlaps the input: the maximum of an empty
/// window is minus infinity for floats but the lowest value for int8.
bool readsInput(MaxPoolOp op) {
  for (auto [window, low, high, dilation] : llvm::zip_equal(
           op.getWindow(), op.getPadLow(), op.getPadHigh(), op.getDilations()))
    if ((low || high) && (dilation != 1 || low >= window || high >= window))
      return false;
  return true;
}

/// Returns true if `op` returns elements of its operand unchanged, or maxima of
/// them.
bool keepsElements(Operation *op) {
  if (auto pool = dyn_cast<MaxPoolOp>(op))
    return readsInput(pool);
  auto movement = dyn_cast<MovementOpInterface>(op);
  return movement && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         movement.isPermutation();
}

/// Applies `op` to the quantized operand and dequantizes its result.
bool sink(Operation *op) {
  if (!keepsElements(op))
    return false;
  std::optional<PerTensorDequantization> from =
      matchDequantization(op->getOperand(0));
  if (!from)
    return false;
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  auto withShape = [&](Operation *made, Type element) {
    made->getResult(0).setType(type.clone(getElementTypeOrSelf(element)));
    return made->getResult(0);
  };
  IRMapping mapping;
  mapping.map(op->getOperand(0), from->bytes);
  Value value = withShape(builder.clone(*op, mapping), from->bytes.getType());
  for (Operation *step : from->ops) {
    IRMapping behind;
    behind.map(step->getOperand(0), value);
    value =
        withShape(builder.clone(*step, behind), step->getResult(0).getType());
  }
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
  return true;
}

/// Returns the quantized input of a dequantize-requantize pair. Multiplying and
/// dividing by the same scale errs by less than half a step.
Value requantized(CastOp op) {
  if (!isByte(op.getResult()))
    return {};
  Value value = op.getInput();
  if (auto clamp = value.getDefiningOp<ClampOp>()) {
    std::optional<double> low = numberOf(clamp->getOperand(1)),
                          high = numberOf(clamp->getOperand(2));
    double least =
        getElementTypeOrSelf(op.getType()).isUnsignedInteger() ? 0 : -128;
    if (!low || !high || *low > least || *high < least + 255)
      return {};
    value = clamp->getOperand(0);
  }
  double zero = 0;
  if (auto sum = value.getDefiningOp<AddOp>()) {
    std::optional<double> number = numberOf(sum.getRhs());
    if (!number)
      return {};
    zero = *number;
    value = sum.getLhs();
  }
  auto round = value.getDefiningOp<RoundOp>();
  auto quotient = round ? round->getOperand(0).getDefiningOp<DivOp>() : DivOp();
  if (!quotient)
    return {};
  std::optional<double> scale = numberOf(quotient.getRhs());
  std::optional<PerTensorDequantization> from =
      matchDequantization(quotient.getLhs());
  bool isSame = scale && from && from->scale == *scale && from->zero == zero &&
                from->bytes.getType() == op.getType();
  return isSame ? from->bytes : Value();
}

struct SinkDequantizationPass
    : mpc::impl::SinkDequantizationPassBase<SinkDequantizationPass> {
  void runOnOperation() override {
    // Block order: ops after a moved conversion see it.
    for (Block &block : getOperation().getBody())
      for (Operation &op : llvm::make_early_inc_range(block)) {
        if (auto cast = dyn_cast<CastOp>(op)) {
          if (Value bytes = requantized(cast)) {
            cast.getResult().replaceAllUsesWith(bytes);
            ++numDropped;
          }
        } else if (sink(&op)) {
          ++numSunk;
        }
      }
  }
};

} // namespace
