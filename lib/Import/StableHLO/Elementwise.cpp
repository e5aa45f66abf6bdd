//===- Elementwise.cpp - elementwise ops ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

template <typename OpTy> static LogicalResult convertUnary(OpImport &op) {
  return op.result(op.map<OpTy>(op.in(0)));
}

template <typename OpTy> static LogicalResult convertBinary(OpImport &op) {
  return op.result(op.map<OpTy>({op.in(0), op.in(1)}));
}

/// Converts an op that is logical on booleans and bitwise on integers.
template <typename OpTy, typename LogicalTy>
static LogicalResult convertLogical(OpImport &op) {
  Value lhs = op.in(0), rhs = op.in(1);
  return op.result(OpImport::isBool(lhs) ? op.map<LogicalTy>({lhs, rhs})
                                         : op.map<OpTy>({lhs, rhs}));
}

/// Returns true if all elements are `number`.
static bool isSplat(Value value, double number) {
  std::optional<double> splat = value ? constantSplat(value) : std::nullopt;
  return splat && *splat == number;
}

template <typename OpTy, typename LogicalTy>
static LogicalResult convertExtremum(OpImport &op) {
  Value lhs = op.in(0), rhs = op.in(1);
  if (OpImport::isBool(lhs))
    return op.result(op.map<LogicalTy>({lhs, rhs}));
  // The neutral infinity changes nothing, not even NaN.
  double neutral = std::is_same_v<OpTy, MaxOp>
                       ? -std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::infinity();
  for (bool swapped : {false, true}) {
    Value value = swapped ? rhs : lhs, other = swapped ? lhs : rhs;
    if (OpImport::isFloat(value) && isSplat(other, neutral))
      return op.result(value);
    // max(x, 0) becomes relu.
    if (std::is_same_v<OpTy, MaxOp> && OpImport::isFloat(value) &&
        isSplat(other, 0) && !constantSplat(value))
      return op.result(op.map<ReluOp>(value));
  }
  return op.result(op.map<OpTy>({lhs, rhs}));
}

/// Returns the mean that corresponds to a sum over `count` elements; null if
/// `sum` is not one.
static Value meanOf(OpImport &op, Value sum, double count) {
  if (!sum)
    return {};
  Value inner = sum;
  if (auto reshape = sum.getDefiningOp<ReshapeOp>())
    inner = reshape.getInput();
  auto cast = inner.getDefiningOp<CastOp>();
  auto reduce = inner.getDefiningOp<ReduceSumOp>();
  if (cast || !reduce || !OpImport::isFloat(sum))
    return {};
  double elements = 1;
  for (int64_t axis : reduce.getAxes())
    elements *= double(OpImport::shape(reduce.getInput())[axis]);
  if (elements != count || elements <= 1)
    return {};
  Value mean = op.reduce(ReduceMeanOp::getOperationName(), reduce.getInput(),
                         reduce.getAxes(), reduce.getKeepDims());
  return op.reshape(mean, OpImport::shape(sum));
}

/// Returns the operand of `value` if an op of this type computes it.
template <typename OpTy> static Value operandOf(Value value) {
  auto made = value ? value.getDefiningOp<OpTy>() : OpTy();
  return made ? made->getOperand(0) : Value();
}

/// Returns x of 1 + e^-x; null if `value` has another form.
static Value logisticArgument(Value value) {
  auto sum = value ? value.getDefiningOp<AddOp>() : AddOp();
  for (int side = 0; sum && side < 2; ++side)
    if (isSplat(sum->getOperand(side), 1))
      if (Value x =
              operandOf<NegOp>(operandOf<ExpOp>(sum->getOperand(1 - side))))
        return x;
  return {};
}

static LogicalResult convertDivide(OpImport &op) {
  Value lhs = op.in(0), rhs = op.in(1);
  if (lhs && isSplat(lhs, 1))
    if (Value x = logisticArgument(rhs);
        x && OpImport::shape(x) == OpImport::shape(rhs))
      return op.result(op.map<SigmoidOp>(x));
  if (std::optional<double> count = rhs ? constantSplat(rhs) : std::nullopt)
    if (Value mean = meanOf(op, lhs, *count))
      return op.result(mean);
  return op.result(op.map<DivOp>({lhs, rhs}));
}

static LogicalResult convertMultiply(OpImport &op) {
  Value lhs = op.in(0), rhs = op.in(1);
  // x * sigmoid(x) becomes silu.
  for (bool swapped : {false, true}) {
    Value x = swapped ? rhs : lhs, other = swapped ? lhs : rhs;
    if (x && operandOf<SigmoidOp>(other) == x)
      return op.result(op.map<SiluOp>(x));
  }
  return convertLogical<MulOp, AndOp>(op);
}

static LogicalResult convertConvert(OpImport &op) {
  Value value = op.numbers(0);
  Type to = OpImport::element(op.op->getResult(0));
  Type from = OpImport::element(value);
  if (narrowFloatOf(to)) {
    // Integers of 16 bits are exact in f32.
    if (auto integer = dyn_cast_if_present<IntegerType>(from))
      value = op.cast(value, integer.getWidth() <= 16
                                 ? Type(op.builder.getF32Type())
                                 : op.builder.getF64Type());
    Type code = op.builder.getIntegerType(8, /*isSigned=*/false);
    return op.result(
        op.makeTyped<EncodeFloatOp>(OpImport::shape(value), code, value,
                                    op.attr("format", TypeAttr::get(to))));
  }
  // A narrowing float cast of the model is pinned.
  bool rounds = isa_and_nonnull<FloatType>(from) && isa<FloatType>(to) &&
                to.getIntOrFloatBitWidth() < from.getIntOrFloatBitWidth();
  return op.result(op.cast(value, to, /*pinned=*/rounds));
}

static LogicalResult convertIsFinite(OpImport &op) {
  Value x = op.in(0);
  if (!x)
    return failure();
  Value size = op.map<AbsOp>(x);
  return op.result(op.compare(ComparePredicate::lt, size,
                              op.scalar(std::numeric_limits<double>::infinity(),
                                        OpImport::element(x))));
}

static ComparePredicate predicateOf(stablehlo::ComparisonDirection direction) {
  switch (direction) {
  case stablehlo::ComparisonDirection::EQ:
    return ComparePredicate::eq;
  case stablehlo::ComparisonDirection::NE:
    return ComparePredicate::ne;
  case stablehlo::ComparisonDirection::GE:
    return ComparePredicate::ge;
  case stablehlo::ComparisonDirection::GT:
    return ComparePredicate::gt;
  case stablehlo::ComparisonDirection::LE:
    return ComparePredicate::le;
  case stablehlo::ComparisonDirection::LT:
    return ComparePredicate::lt;
  }
  llvm_unreachable("unknown direction");
}

/// Comparison by the total order of floats, in which NaN is last and equals
/// itself. Zeros of both signs are equal and NaN has no sign: JAX canonicalizes
/// both before such comparisons.
static Value comparedTotally(OpImport &op, ComparePredicate predicate,
                             Value lhs, Value rhs) {
  auto isNan = [&](Value value) { return op.make<IsNanOp>(value); };
  auto isLess = [&](Value a, Value b) {
    Value behind = op.map<AndOp>({isNan(b), op.map<NotOp>(isNan(a))});
    return op.map<OrOp>({op.compare(ComparePredicate::lt, a, b), behind});
  };
  switch (predicate) {
  case ComparePredicate::lt:
    return isLess(lhs, rhs);
  case ComparePredicate::gt:
    return isLess(rhs, lhs);
  case ComparePredicate::le:
    return op.map<NotOp>(isLess(rhs, lhs));
  case ComparePredicate::ge:
    return op.map<NotOp>(isLess(lhs, rhs));
  case ComparePredicate::eq:
  case ComparePredicate::ne:
    break;
  }
  Value same = op.map<OrOp>({op.compare(ComparePredicate::eq, lhs, rhs),
                             op.map<AndOp>({isNan(lhs), isNan(rhs)})});
  return predicate == ComparePredicate::eq ? same : op.map<NotOp>(same);
}

static LogicalResult convertCompare(OpImport &op) {
  auto compare = cast<stablehlo::CompareOp>(op.op);
  Value lhs = op.in(0), rhs = op.in(1);
  ComparePredicate predicate = predicateOf(compare.getComparisonDirection());
  if (compare.getCompareType() == stablehlo::ComparisonType::TOTALORDER &&
      OpImport::isFloat(lhs))
    return op.result(comparedTotally(op, predicate, lhs, rhs));
  if (OpImport::isBool(lhs)) {
    if (predicate == ComparePredicate::ne)
      return op.result(op.map<XorOp>({lhs, rhs}));
    if (predicate == ComparePredicate::eq)
      return op.result(op.map<NotOp>(op.map<XorOp>({lhs, rhs})));
    // Compare booleans as unsigned numbers.
    lhs = op.cast(lhs, op.builder.getI32Type());
    rhs = op.cast(rhs, op.builder.getI32Type());
  }
  if (Value compared = matchNegativeIndexSelect(op, predicate, lhs, rhs))
    return op.result(compared);
  return op.result(op.compare(predicate, lhs, rhs));
}

/// Returns x of log(1 + e^x), which JAX writes as max(x, 0) + log1p(e^-|x|)
/// unless the difference to 0 is NaN; null if the select has another form.
static Value softplusArgument(Value condition, Value onFalse) {
  auto isNan = condition.getDefiningOp<CompareOp>();
  auto sum = onFalse.getDefiningOp<AddOp>();
  if (!isNan || isNan.getPredicate() != ComparePredicate::ne ||
      isNan.getLhs() != isNan.getRhs() || !sum)
    return {};
  Value x = operandOf<ReluOp>(sum.getLhs());
  Value size = operandOf<AbsOp>(
      operandOf<NegOp>(operandOf<ExpOp>(operandOf<Log1pOp>(sum.getRhs()))));
  if (auto difference = size ? size.getDefiningOp<SubOp>() : SubOp();
      difference && isSplat(difference.getRhs(), 0))
    size = difference.getLhs();
  return x && size == x ? x : Value();
}

static LogicalResult convertSelect(OpImport &op) {
  Value condition = op.in(0), onTrue = op.in(1), onFalse = op.in(2);
  if (!condition || !onTrue || !onFalse)
    return failure();
  // A known condition needs no select.
  if (std::optional<double> known = constantSplat(condition)) {
    Value chosen = *known != 0 ? onTrue : onFalse;
    if (chosen.getType() == op.op->getResult(0).getType() || op.isSpread())
      return op.result(chosen);
  }
  if (Value x = softplusArgument(condition, onFalse);
      x && x.getType() == onFalse.getType())
    return op.result(op.map<SoftplusOp>(x));
  return op.result(op.select(condition, onTrue, onFalse));
}

static LogicalResult convertClamp(OpImport &op) {
  Value low = op.in(0), value = op.in(1), high = op.in(2);
  return op.result(op.map<ClampOp>({value, low, high}));
}

/// Arithmetic shift of signed integers, with sign extension.
static LogicalResult convertShiftRightArithmetic(OpImport &op) {
  Value value = op.in(0), by = op.in(1);
  if (!value || !by)
    return failure();
  // Reinterpret as signed, so that the first bit is replicated.
  Type declared = OpImport::element(value);
  auto bits = IntegerType::get(op.builder.getContext(),
                               declared.getIntOrFloatBitWidth());
  value = op.cast(value, bits);
  by = op.cast(by, bits);
  Value isNegative =
      op.compare(ComparePredicate::lt, value, op.scalar(0, bits));
  Value flipped = op.map<NotOp>(value);
  Value shifted = op.map<NotOp>(op.map<ShiftRightOp>({flipped, by}));
  shifted = op.select(isNegative, shifted, op.map<ShiftRightOp>({value, by}));
  return op.result(op.cast(shifted, declared));
}

/// Cube root as a power, with the argument's sign.
static LogicalResult convertCbrt(OpImport &op) {
  Value x = op.in(0);
  Value root = op.with<PowOp>(op.map<AbsOp>(x), 1.0 / 3);
  return op.result(op.map<MulOp>({op.map<SignOp>(x), root}));
}

static LogicalResult convertRoundAfz(OpImport &op) {
  Value x = op.in(0);
  Value size = op.map<AbsOp>(x);
  Value whole = op.map<FloorOp>(size);
  Value part = op.map<SubOp>({size, whole});
  if (!part)
    return failure();
  Type type = OpImport::element(x);
  Value isUp = op.compare(ComparePredicate::ge, part, op.scalar(0.5, type));
  Value rounded = op.select(isUp, op.with<AddOp>(whole, 1), whole);
  return op.result(op.map<MulOp>({op.map<SignOp>(x), rounded}));
}

OpFamily hlo::elementwiseOps() {
  static const OpEntry entries[] = {
      {"stablehlo.abs", convertUnary<AbsOp>},
      {"stablehlo.negate", convertUnary<NegOp>},
      {"stablehlo.sign", convertUnary<SignOp>},
      {"stablehlo.floor", convertUnary<FloorOp>},
      {"stablehlo.ceil", convertUnary<CeilOp>},
      {"stablehlo.round_nearest_even", convertUnary<RoundOp>},
      {"stablehlo.round_nearest_afz", convertRoundAfz},
      {"stablehlo.not", convertUnary<NotOp>},
      {"stablehlo.cbrt", convertCbrt},
      {"stablehlo.cosine", convertUnary<CosOp>},
      {"stablehlo.exponential", convertUnary<ExpOp>},
      {"stablehlo.exponential_minus_one", convertUnary<Expm1Op>},
      {"stablehlo.log", convertUnary<LogOp>},
      {"stablehlo.log_plus_one", convertUnary<Log1pOp>},
      {"stablehlo.logistic", convertUnary<SigmoidOp>},
      {"stablehlo.rsqrt", convertUnary<RsqrtOp>},
      {"stablehlo.sine", convertUnary<SinOp>},
      {"stablehlo.sqrt", convertUnary<SqrtOp>},
      {"stablehlo.tan", convertUnary<TanOp>},
      {"stablehlo.tanh", convertUnary<TanhOp>},
      {"stablehlo.add", convertLogical<AddOp, OrOp>},
      {"stablehlo.and", convertBinary<AndOp>},
      {"stablehlo.atan2", convertBinary<Atan2Op>},
      {"stablehlo.divide", convertDivide},
      {"stablehlo.maximum", convertExtremum<MaxOp, OrOp>},
      {"stablehlo.minimum", convertExtremum<MinOp, AndOp>},
      {"stablehlo.multiply", convertMultiply},
      {"stablehlo.or", convertBinary<OrOp>},
      {"stablehlo.power", convertBinary<PowOp>},
      {"stablehlo.remainder", convertBinary<RemOp>},
      {"stablehlo.shift_left", convertBinary<ShiftLeftOp>},
      {"stablehlo.shift_right_arithmetic", convertShiftRightArithmetic},
      {"stablehlo.shift_right_logical", convertBinary<ShiftRightOp>},
      {"stablehlo.subtract", convertBinary<SubOp>},
      {"stablehlo.xor", convertBinary<XorOp>},
      {"stablehlo.is_finite", convertIsFinite},
      {"stablehlo.convert", convertConvert},
      {"stablehlo.compare", convertCompare},
      {"stablehlo.select", convertSelect},
      {"stablehlo.clamp", convertClamp},
      {"chlo.acosh", convertUnary<AcoshOp>},
      {"chlo.asinh", convertUnary<AsinhOp>},
      {"chlo.atan", convertUnary<AtanOp>},
      {"chlo.atanh", convertUnary<AtanhOp>},
      {"chlo.cosh", convertUnary<CoshOp>},
      {"chlo.erf", convertUnary<ErfOp>},
      {"chlo.sinh", convertUnary<SinhOp>},
      {"chlo.tan", convertUnary<TanOp>},
  };
  return entries;
}
