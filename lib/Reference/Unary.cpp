//===- Unary.cpp - elementwise ops of one operand -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluation.h"
#include "RoundingKernels.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/RoundingCasts.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Functions of one number
//===----------------------------------------------------------------------===//

static double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

static double sign(double x) {
  return std::isnan(x) || x == 0 ? x : std::copysign(1.0, x);
}

static double geluErf(double x) { return x * std::erfc(-x * M_SQRT1_2) / 2; }

static double geluTanh(double x) {
  double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x * (1 + std::tanh(inner)) / 2;
}

using FloatFunction = double (*)(double);
using IntegerFunction = int64_t (*)(int64_t);

/// Returns the op's function on floats, null if it is no unary op or has
/// attributes.
static FloatFunction unaryFloatFunction(Operation *op) {
  return TypeSwitch<Operation *, FloatFunction>(op)
      .Case([](AbsOp) { return [](double x) { return std::fabs(x); }; })
      .Case([](NegOp) { return [](double x) { return -x; }; })
      .Case([](SignOp) { return &sign; })
      .Case([](FloorOp) { return [](double x) { return std::floor(x); }; })
      .Case([](CeilOp) { return [](double x) { return std::ceil(x); }; })
      .Case([](RoundOp) { return [](double x) { return std::nearbyint(x); }; })
      .Case([](ExpOp) { return [](double x) { return std::exp(x); }; })
      .Case([](Expm1Op) { return [](double x) { return std::expm1(x); }; })
      .Case([](LogOp) { return [](double x) { return std::log(x); }; })
      .Case([](Log1pOp) { return [](double x) { return std::log1p(x); }; })
      .Case([](SqrtOp) { return [](double x) { return std::sqrt(x); }; })
      .Case([](RsqrtOp) { return [](double x) { return 1 / std::sqrt(x); }; })
      .Case([](ReciprocalOp) { return [](double x) { return 1 / x; }; })
      .Case([](SinOp) { return [](double x) { return std::sin(x); }; })
      .Case([](CosOp) { return [](double x) { return std::cos(x); }; })
      .Case([](TanOp) { return [](double x) { return std::tan(x); }; })
      .Case([](AsinOp) { return [](double x) { return std::asin(x); }; })
      .Case([](AcosOp) { return [](double x) { return std::acos(x); }; })
      .Case([](AtanOp) { return [](double x) { return std::atan(x); }; })
      .Case([](SinhOp) { return [](double x) { return std::sinh(x); }; })
      .Case([](CoshOp) { return [](double x) { return std::cosh(x); }; })
      .Case([](AsinhOp) { return [](double x) { return std::asinh(x); }; })
      .Case([](AcoshOp) { return [](double x) { return std::acosh(x); }; })
      .Case([](AtanhOp) { return [](double x) { return std::atanh(x); }; })
      .Case([](TanhOp) { return [](double x) { return std::tanh(x); }; })
      .Case([](SigmoidOp) { return &sigmoid; })
      .Case([](ErfOp) { return [](double x) { return std::erf(x); }; })
      .Case([](ReluOp) { return [](double x) { return maximum(x, 0.0); }; })
      .Case([](SiluOp) { return [](double x) { return x * sigmoid(x); }; })
      .Case([](SoftplusOp) { return &softplus; })
      .Case([](GeluOp gelu) {
        return gelu.getForm() == GeluForm::erf ? &geluErf : &geluTanh;
      })
      .Default([](Operation *) { return nullptr; });
}

/// Returns the op's function on integers before wrapping, or null. `kind`
/// defines the signedness.
static IntegerFunction unaryIntegerFunction(Operation *op, IntegerKind kind) {
  auto identity = [](int64_t x) { return x; };
  return TypeSwitch<Operation *, IntegerFunction>(op)
      .Case([&](AbsOp) -> IntegerFunction {
        if (kind.isUnsigned)
          return identity;
        return [](int64_t x) {
          return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
        };
      })
      .Case([](NegOp) {
        return [](int64_t x) {
          return static_cast<int64_t>(-static_cast<uint64_t>(x));
        };
      })
      .Case([&](SignOp) -> IntegerFunction {
        if (kind.isUnsigned)
          return [](int64_t x) -> int64_t { return x != 0; };
        return [](int64_t x) -> int64_t { return (x > 0) - (x < 0); };
      })
      .Case([&](ReluOp) -> IntegerFunction {
        if (kind.isUnsigned)
          return identity;
        return [](int64_t x) { return std::max<int64_t>(x, 0); };
      })
      .Case([](NotOp) { return [](int64_t x) { return ~x; }; })
      .Default([](Operation *) { return nullptr; });
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

template <typename Fn> static void mapFloats(Evaluation &evaluation, Fn fn) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  llvm::transform(input.floats(), result.floats().begin(), fn);
}

template <typename Fn> static void classify(Evaluation &evaluation, Fn fn) {
  const Tensor &input = evaluation.operand(0);
  Tensor &result = evaluation.addResult();
  llvm::transform(input.floats(), result.ints().begin(), fn);
}

//===----------------------------------------------------------------------===//
// Cast
//===----------------------------------------------------------------------===//

/// Truncates towards zero and saturates; NaN gives 0.
static int64_t toInteger(double value, IntegerKind kind) {
  if (std::isnan(value))
    return 0;
  double truncated = std::trunc(value);
  double end = std::ldexp(1.0, kind.isUnsigned ? kind.width : kind.width - 1);
  if (truncated >= end)
    return kind.highest();
  if (truncated < (kind.isUnsigned ? 0 : -end))
    return kind.lowest();
  if (kind.isUnsigned)
    return static_cast<int64_t>(static_cast<uint64_t>(truncated));
  return static_cast<int64_t>(truncated);
}

static void evaluateCast(Evaluation &evaluation) {
  const Tensor &input = evaluation.operand(0);
  Type from = input.getElementType();
  Tensor &result = evaluation.addResult();
  Type to = result.getElementType();
  if (input.isFloat() && result.isFloat()) {
    llvm::copy(input.floats(), result.floats().begin());
    if (evaluation.op->hasAttr(kRoundsAttr))
      result.roundToType();
    return;
  }
  if (input.isFloat()) {
    IntegerKind kind(to);
    bool toBoolean = to.isInteger(1);
    llvm::transform(input.floats(), result.ints().begin(),
                    [&](double value) -> int64_t {
                      return toBoolean ? value != 0 : toInteger(value, kind);
                    });
    return;
  }
  if (result.isFloat()) {
    bool isUnsigned64 = from.isUnsignedInteger(64);
    llvm::transform(input.ints(), result.floats().begin(), [&](int64_t value) {
      return isUnsigned64 ? static_cast<double>(static_cast<uint64_t>(value))
                          : static_cast<double>(value);
    });
    return;
  }
  IntegerKind kind(to);
  bool toBoolean = to.isInteger(1);
  llvm::transform(input.ints(), result.ints().begin(),
                  [&](int64_t value) -> int64_t {
                    return toBoolean ? value != 0 : kind.wrap(value);
                  });
}

static void evaluateEncode(EncodeFloatOp op, Evaluation &evaluation) {
  ArrayRef<double> input = evaluation.operand(0).floats();
  const Tensor *random = evaluation.find(op.getRandom());
  const NarrowFloat &format = *narrowFloatOf(op.getFormat());
  Tensor &result = evaluation.addResult();
  for (auto [i, code] : llvm::enumerate(result.ints()))
    code = format.encode(input[i], op.getSaturate(), op.roundingMode(),
                         random ? uint32_t(random->ints()[i]) : 0);
}

FailureOr<bool> mpc::reference::evaluateUnary(Evaluation &evaluation) {
  Operation *op = evaluation.op;
  if (isa<CastOp>(op)) {
    evaluateCast(evaluation);
  } else if (auto leaky = dyn_cast<LeakyReluOp>(op)) {
    double alpha = leaky.getAlpha().convertToDouble();
    mapFloats(evaluation, [alpha](double x) { return x >= 0 ? x : alpha * x; });
  } else if (auto elu = dyn_cast<EluOp>(op)) {
    double alpha = elu.getAlpha().convertToDouble();
    mapFloats(evaluation,
              [alpha](double x) { return x >= 0 ? x : alpha * std::expm1(x); });
  } else if (auto encode = dyn_cast<EncodeFloatOp>(op)) {
    evaluateEncode(encode, evaluation);
  } else if (auto decode = dyn_cast<DecodeFloatOp>(op)) {
    const NarrowFloat &format = *narrowFloatOf(decode.getFormat());
    llvm::transform(evaluation.operand(0).ints(),
                    evaluation.addResult().floats().begin(),
                    [&](int64_t code) { return format.decode(uint8_t(code)); });
  } else if (isa<IsNanOp>(op)) {
    classify(evaluation, [](double x) -> int64_t { return std::isnan(x); });
  } else if (auto isInf = dyn_cast<IsInfOp>(op)) {
    bool positive = isInf.getPositive(), negative = isInf.getNegative();
    classify(evaluation, [=](double x) -> int64_t {
      return std::isinf(x) && (x > 0 ? positive : negative);
    });
  } else if (op->getNumOperands() == 1 && evaluation.operand(0).isFloat()) {
    FloatFunction function = unaryFloatFunction(op);
    if (!function)
      return false;
    mapFloats(evaluation, function);
  } else if (op->getNumOperands() == 1) {
    IntegerKind kind(evaluation.operand(0).getElementType());
    IntegerFunction function = unaryIntegerFunction(op, kind);
    if (!function)
      return false;
    Tensor &result = evaluation.addResult();
    llvm::transform(evaluation.operand(0).ints(), result.ints().begin(),
                    [&](int64_t x) { return kind.wrap(function(x)); });
  } else {
    return false;
  }
  evaluation.roundResults();
  return true;
}
