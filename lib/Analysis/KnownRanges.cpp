//===- KnownRanges.cpp - bounds that follow from the graph ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One rule per family of ops, evaluated when a value is asked for.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/KnownRanges.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Constants of more elements are weights and tables; reading them all would
/// cost time and say little.
static constexpr int64_t kLargestRead = 4096;

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

double mpc::roundedTo(double value, FloatType type) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

double mpc::exactIntegerLimit(FloatType type) {
  return std::ldexp(1.0, type.getFPMantissaWidth());
}

std::optional<double> mpc::constantSplat(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (movesOneOperand(op) ||
                (isa<CastOp>(op) && isa<FloatType>(getElementTypeOrSelf(
                                        op->getOperand(0).getType()))))) {
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  auto constant = dyn_cast_if_present<ConstantOp>(op);
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Interval arithmetic
//===----------------------------------------------------------------------===//

/// The interval around `values`; unknown where one is no number.
static KnownRange around(std::initializer_list<double> values) {
  KnownRange range{*values.begin(), *values.begin()};
  for (double value : values) {
    if (std::isnan(value))
      return {};
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

static KnownRange join(KnownRange a, KnownRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// 0 * infinity is 0 here: an end that is not known still bounds a finite
/// value.
static double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

static KnownRange multiply(KnownRange a, KnownRange b) {
  return around({product(a.low, b.low), product(a.low, b.high),
                 product(a.high, b.low), product(a.high, b.high)});
}

static KnownRange square(KnownRange a) {
  bool holdsZero = a.low <= 0 && a.high >= 0;
  double low = holdsZero ? 0 : std::min(std::abs(a.low), std::abs(a.high));
  return {low * low, a.magnitude() * a.magnitude()};
}

/// a / b; what is known of b ends at infinity, where the quotient is 0.
static double quotient(double a, double b) { return std::isinf(b) ? 0 : a / b; }

/// Unknown where `by` may be 0.
static KnownRange divide(KnownRange a, KnownRange by) {
  if (by.low <= 0 && by.high >= 0)
    return {};
  return around({quotient(a.low, by.low), quotient(a.low, by.high),
                 quotient(a.high, by.low), quotient(a.high, by.high)});
}

/// Ends of a function that rises everywhere.
template <typename Fn> static KnownRange rising(KnownRange a, Fn fn) {
  return around({fn(a.low), fn(a.high)});
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

static KnownRange rangeOfConstant(ConstantOp op) {
  if (std::optional<double> splat = splatValue(op.getValue()))
    return around({*splat});
  if (elementCount(op.getResult()) > kLargestRead)
    return {};
  KnownRange range{std::numeric_limits<double>::infinity(),
                   -std::numeric_limits<double>::infinity()};
  auto take = [&](double value) { range = join(range, {value, value}); };
  if (std::optional<SmallVector<int64_t>> integers =
          integerElements(op.getValue())) {
    for (int64_t value : *integers)
      take(value);
    return range.low <= range.high ? range : KnownRange();
  }
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(op.getValue());
  if (failed(bytes) || !getElementTypeOrSelf(op.getType()).isF32())
    return {};
  for (float value : bytes->as<float>()) {
    if (std::isnan(value))
      return {};
    take(value);
  }
  return range.low <= range.high ? range : KnownRange();
}

/// What the element type alone says: 0 or 1, or bytes.
static KnownRange rangeOfType(Value value) {
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
  if (!type || type.getWidth() > 8)
    return {};
  if (type.getWidth() == 1)
    return {0, 1};
  return type.isUnsigned() ? KnownRange{0, 255} : KnownRange{-128, 127};
}

/// Whether integers of `range` may leave the value's type, where they wrap.
static bool mayWrap(Value value, KnownRange range) {
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
  if (!type)
    return false;
  double limit = std::ldexp(1.0, int(type.getWidth()) - 1);
  // Ends of 64 bits are doubles that were rounded: what rounds to the limit may
  // lie beyond it.
  auto highest = [](double end) { return std::nextafter(end, 0.0); };
  if (type.getWidth() <= 32)
    return type.isUnsigned() || type.getWidth() == 1
               ? !range.isWithin(0, 2 * limit - 1)
               : !range.isWithin(-limit, limit - 1);
  return type.isUnsigned() ? !range.isWithin(0, highest(2 * limit))
                           : !range.isWithin(highest(-limit), highest(limit));
}

/// Ops that move the elements of operand 0 alone or convert them.
static bool movesInput(Operation *op) {
  return isa<CastOp>(op) || movesOneOperand(op);
}

/// Whether `value` is an integer argument, moved or converted.
static bool isIntegerInput(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!movesInput(op))
      return false;
    value = op->getOperand(0);
  }
  return isa<IntegerType>(getElementTypeOrSelf(value.getType()));
}

/// Whether every reader of `value`, a truth value that is carried in a number,
/// makes a truth value of it or multiplies it by a number that hides a score.
static bool hidesScores(Value value) {
  constexpr double kLeastMask = 1000;
  return !value.use_empty() &&
         llvm::all_of(value.getUsers(), [](Operation *op) {
           if (isa<CastOp>(op) &&
               op->getResult(0).getType() != op->getOperand(0).getType() &&
               getElementTypeOrSelf(op->getResult(0).getType()).isInteger(1))
             return true;
           if (movesInput(op))
             return hidesScores(op->getResult(0));
           auto mul = dyn_cast<MulOp>(op);
           if (!mul)
             return false;
           for (Value factor : op->getOperands())
             if (std::optional<double> splat = constantSplat(factor);
                 splat && std::abs(*splat) >= kLeastMask)
               return true;
           return false;
         });
}

/// Whether the model takes `value` for a mask of zeros and ones, whatever its
/// type could hold: an integer input, read as 1 - value, which hides scores.
/// Nothing in the graph bounds such an input; the model's word is taken. What
/// the graph itself computes (positions, counts) is bounded by the graph alone.
static bool isMask(Value value) {
  return isIntegerInput(value) &&
         llvm::any_of(value.getUses(), [](OpOperand &use) {
           auto sub = dyn_cast<SubOp>(use.getOwner());
           return sub && use.getOperandNumber() == 1 &&
                  constantSplat(sub.getLhs()) == 1.0 &&
                  hidesScores(sub.getResult());
         });
}

static int64_t extentOf(Value value, int64_t axis) {
  return cast<ShapedType>(value.getType()).getDimSize(axis);
}

/// The sum of `count` numbers of `range`.
static KnownRange sumOf(KnownRange range, double count) {
  return {product(range.low, count), product(range.high, count)};
}

/// Whether every value of `op` has known extents: ranges count elements.
static bool hasStaticShapes(Operation *op) {
  auto isStatic = [](Value value) {
    auto type = dyn_cast<ShapedType>(value.getType());
    return type && type.hasStaticShape();
  };
  return llvm::all_of(op->getOperands(), isStatic) &&
         llvm::all_of(op->getResults(), isStatic);
}

static bool isInteger(Value value) {
  return isa<IntegerType>(getElementTypeOrSelf(value.getType()));
}

/// Converting to `result`: fractions are dropped, NaN becomes 0.
static KnownRange converted(KnownRange range, CastOp op) {
  if (getElementTypeOrSelf(op.getType()).isInteger(1))
    return {0, 1};
  if (isInteger(op.getInput()) || !isInteger(op.getResult()))
    return range;
  return join(rising(range, [](double x) { return std::trunc(x); }), {0, 0});
}

/// The mean of numbers of `range`; unknown where there are none, or where
/// their sum may leave an integer type.
static KnownRange meanOf(KnownRange range, ReduceMeanOp op) {
  int64_t count =
      cast<ReductionOpInterface>(op.getOperation()).getReductionSize();
  if (count == 0 || mayWrap(op.getInput(), sumOf(range, count)))
    return {};
  return range;
}

/// Whether a window may hold padding alone, which gives the lowest value.
static bool mayReadPaddingAlone(MaxPoolOp op) {
  if (elementCount(op.getInput()) == 0)
    return true;
  for (auto [window, low, high, dilation] :
       llvm::zip_equal(op.getWindow(), op.getPadLow(), op.getPadHigh(),
                       op.getDilations())) {
    bool mayStepOver = dilation > 1 && (low > 0 || high > 0);
    if (mayStepOver || low >= window || high >= window)
      return true;
  }
  return false;
}

KnownRange KnownRanges::compute(Operation *op, Value result) const {
  if (!hasStaticShapes(op))
    return {};
  auto of = [&](unsigned index) { return get(op->getOperand(index)); };
  return llvm::TypeSwitch<Operation *, KnownRange>(op)
      .Case<ConstantOp>([&](auto op) { return rangeOfConstant(op); })
      .Case<IotaOp>([&](auto op) {
        return around({0, double(extentOf(op.getResult(), op.getAxis()) - 1)});
      })
      .Case<ArgmaxOp, ArgminOp>([&](auto op) {
        return around({0, double(extentOf(op.getInput(), op.getAxis()) - 1)});
      })
      .Case<TopKOp>([&](auto op) {
        return result == op.getValues()
                   ? of(0)
                   : around({0, double(extentOf(op.getInput(), op.getAxis()) -
                                       1)});
      })
      .Case<CastOp>([&](auto op) { return converted(of(0), op); })
      .Case<MovementOpInterface>([&](auto movement) {
        KnownRange range = of(0);
        for (OpOperand &operand : op->getOpOperands())
          if (movement.givesElements(operand.getOperandNumber()))
            range = join(range, get(operand.get()));
        return range;
      })
      .Case<ReduceMaxOp, ReduceMinOp>([&](auto op) {
        // Of no elements the result is an end of the type.
        return cast<ReductionOpInterface>(op.getOperation())
                           .getReductionSize() == 0
                   ? KnownRange()
                   : of(0);
      })
      .Case<ReduceMeanOp>([&](auto op) { return meanOf(of(0), op); })
      .Case<MaxPoolOp>([&](auto op) {
        KnownRange range = of(0);
        if (mayReadPaddingAlone(op))
          range.low = KnownRange().low;
        return range;
      })
      .Case<SelectOp, OneHotOp>([&](auto) { return join(of(1), of(2)); })
      .Case<AddOp>([&](auto) {
        return around({of(0).low + of(1).low, of(0).high + of(1).high});
      })
      .Case<SubOp>([&](auto) {
        return around({of(0).low - of(1).high, of(0).high - of(1).low});
      })
      .Case<MulOp>([&](auto op) {
        return op.getLhs() == op.getRhs() ? square(of(0))
                                          : multiply(of(0), of(1));
      })
      .Case<DivOp>([&](auto op) {
        KnownRange range = divide(of(0), of(1));
        return isInteger(op.getResult())
                   ? rising(range, [](double x) { return std::trunc(x); })
                   : range;
      })
      .Case<PowOp>([&](auto op) {
        return constantSplat(op.getRhs()) == 2.0 ? square(of(0)) : KnownRange();
      })
      .Case<NegOp>([&](auto) { return KnownRange{-of(0).high, -of(0).low}; })
      .Case<AbsOp>([&](auto) {
        KnownRange a = of(0);
        if (a.low >= 0 || a.high <= 0)
          return around({std::abs(a.low), std::abs(a.high)});
        return KnownRange{0, a.magnitude()};
      })
      .Case<MaxOp>([&](auto) {
        return KnownRange{std::max(of(0).low, of(1).low),
                          std::max(of(0).high, of(1).high)};
      })
      .Case<MinOp>([&](auto) {
        return KnownRange{std::min(of(0).low, of(1).low),
                          std::min(of(0).high, of(1).high)};
      })
      .Case<ClampOp>([&](auto) {
        return KnownRange{
            std::min(std::max(of(0).low, of(1).low), of(2).low),
            std::min(std::max(of(0).high, of(1).high), of(2).high)};
      })
      .Case<ReluOp>([&](auto) {
        return KnownRange{std::max(of(0).low, 0.0), std::max(of(0).high, 0.0)};
      })
      .Case<FloorOp>([&](auto) {
        return rising(of(0), [](double x) { return std::floor(x); });
      })
      .Case<CeilOp>([&](auto) {
        return rising(of(0), [](double x) { return std::ceil(x); });
      })
      .Case<RoundOp>([&](auto) {
        return rising(of(0), [](double x) { return std::nearbyint(x); });
      })
      .Case<ExpOp>([&](auto) {
        return rising(of(0), [](double x) { return std::exp(x); });
      })
      .Case<SqrtOp>([&](auto) {
        return rising({std::max(of(0).low, 0.0), std::max(of(0).high, 0.0)},
                      [](double x) { return std::sqrt(x); });
      })
      .Case<SigmoidOp, SoftmaxOp>([&](auto) { return KnownRange{0, 1}; })
      .Case<TanhOp, ErfOp, SinOp, CosOp, SignOp>(
          [&](auto) { return KnownRange{-1, 1}; })
      .Case<ReduceSumOp>([&](auto op) {
        return sumOf(
            of(0),
            cast<ReductionOpInterface>(op.getOperation()).getReductionSize());
      })
      .Case<CumsumOp>([&](auto op) {
        return join(join(of(0), {0, 0}),
                    sumOf(of(0), extentOf(op.getInput(), op.getAxis())));
      })
      .Default([](Operation *) { return KnownRange(); });
}

KnownRanges::KnownRanges(func::FuncOp func) {
  auto note = [&](Value value, KnownRange range) {
    KnownRange byType = rangeOfType(value);
    if (mayWrap(value, range))
      range = {};
    if (isMask(value))
      byType = {std::max(byType.low, 0.0), std::min(byType.high, 1.0)};
    KnownRange met{std::max(range.low, byType.low),
                   std::min(range.high, byType.high)};
    ranges[value] = met.low <= met.high ? met : byType;
  };
  for (BlockArgument argument : func.getArguments())
    if (!isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      note(argument, {});
  for (Operation &op : func.getBody().front())
    for (Value result : op.getResults()) {
      KnownRange range = compute(&op, result);
      // 1 - x says something of x only where x came from integers.
      if (isa<FloatType>(getElementTypeOrSelf(result.getType())) &&
          !(isa<CastOp>(op) &&
            isa<IntegerType>(getElementTypeOrSelf(op.getOperand(0).getType()))))
        ranges[result] = range;
      else
        note(result, range);
    }
}
