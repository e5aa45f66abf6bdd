//===- UnaryVjps.cpp - derivatives of unary elementwise ops ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If both result and operand give the derivative, uses the one that is saved
// anyway (the result of relu, tanh and sigmoid) or that cancels less. Computed
// in at least f32.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"

#include "VjpBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Derivative `f(vjp, x)` as a function of the operand x.
template <typename OpTy, typename Factor>
static void fromInput(MLIRContext *context, Factor) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    v.give(0, v.mul(v.wideDy(), Factor{}(v, v.wide(op.getInput()))));
  });
}

/// Derivative as a function of the result.
template <typename OpTy, typename Factor>
static void fromResult(MLIRContext *context, Factor) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    v.give(0, v.mul(v.wideDy(), Factor{}(v, v.wide(op.getResult()))));
  });
}

/// The derivative is 0 wherever it exists.
template <typename... OpTys> static void withoutSlope(MLIRContext *context) {
  (attachVjp<OpTys>(context, [](OpTys, VjpBuilder &) {}), ...);
}

/// (1 - x) * (1 + x), which does not cancel near |x| = 1.
static Value oneMinusSquare(VjpBuilder &v, Value x) {
  return v.mul(v.sub(1.0, x), v.add(x, 1.0));
}

/// Derivative of gelu: Phi(x) + x * phi(x), or its tanh approximation.
static Value geluSlope(VjpBuilder &v, Value x, GeluForm form) {
  if (form == GeluForm::erf) {
    // Phi(x) + x * phi(x).
    Value erf = v.unary<ErfOp>(v.mul(x, 1 / llvm::numbers::sqrt2));
    Value distribution = v.mul(v.add(erf, 1.0), 0.5);
    Value bell = v.unary<ExpOp>(v.mul(v.square(x), -0.5));
    double scale = 0.5 * llvm::numbers::inv_sqrtpi * llvm::numbers::sqrt2;
    return v.add(distribution, v.mul(x, v.mul(bell, scale)));
  }
  // With u = k * (x + c * x^3), k = sqrt(2 / pi):
  // (1 + tanh u) / 2 + x / 2 * (1 - tanh^2 u) * k * (1 + 3 c x^2).
  constexpr double kCubic = 0.044715;
  double k = llvm::numbers::sqrt2 * llvm::numbers::inv_sqrtpi;
  Value squared = v.square(x);
  Value inner = v.mul(v.mul(x, v.add(v.mul(squared, kCubic), 1.0)), k);
  Value tanh = v.unary<TanhOp>(inner);
  Value half = v.mul(v.add(tanh, 1.0), 0.5);
  Value slope = v.mul(v.add(v.mul(squared, 3 * kCubic), 1.0), 0.5 * k);
  return v.add(half, v.mul(v.mul(x, oneMinusSquare(v, tanh)), slope));
}

static void attachExponentials(MLIRContext *context) {
  fromResult<ExpOp>(context, [](VjpBuilder &, Value y) { return y; });
  fromInput<Expm1Op>(context,
                     [](VjpBuilder &v, Value x) { return v.unary<ExpOp>(x); });
  attachVjp<LogOp>(context, [](LogOp op, VjpBuilder &v) {
    v.give(0, v.div(v.wideDy(), v.wide(op.getInput())));
  });
  attachVjp<Log1pOp>(context, [](Log1pOp op, VjpBuilder &v) {
    v.give(0, v.div(v.wideDy(), v.add(v.wide(op.getInput()), 1.0)));
  });
  attachVjp<SqrtOp>(context, [](SqrtOp op, VjpBuilder &v) {
    v.give(0, v.div(v.mul(v.wideDy(), 0.5), v.wide(op.getResult())));
  });
  fromResult<RsqrtOp>(context, [](VjpBuilder &v, Value y) {
    return v.mul(v.mul(v.square(y), y), -0.5);
  });
  fromResult<ReciprocalOp>(
      context, [](VjpBuilder &v, Value y) { return v.neg(v.square(y)); });
  fromInput<ErfOp>(context, [](VjpBuilder &v, Value x) {
    return v.mul(v.unary<ExpOp>(v.neg(v.square(x))),
                 2 * llvm::numbers::inv_sqrtpi);
  });
}

static void attachTrigonometry(MLIRContext *context) {
  fromInput<SinOp>(context,
                   [](VjpBuilder &v, Value x) { return v.unary<CosOp>(x); });
  fromInput<CosOp>(
      context, [](VjpBuilder &v, Value x) { return v.neg(v.unary<SinOp>(x)); });
  fromResult<TanOp>(
      context, [](VjpBuilder &v, Value y) { return v.add(v.square(y), 1.0); });
  fromInput<AsinOp>(context, [](VjpBuilder &v, Value x) {
    return v.unary<RsqrtOp>(oneMinusSquare(v, x));
  });
  fromInput<AcosOp>(context, [](VjpBuilder &v, Value x) {
    return v.neg(v.unary<RsqrtOp>(oneMinusSquare(v, x)));
  });
  fromInput<AtanOp>(context, [](VjpBuilder &v, Value x) {
    return v.unary<ReciprocalOp>(v.add(v.square(x), 1.0));
  });
  fromInput<SinhOp>(context,
                    [](VjpBuilder &v, Value x) { return v.unary<CoshOp>(x); });
  fromInput<CoshOp>(context,
                    [](VjpBuilder &v, Value x) { return v.unary<SinhOp>(x); });
  fromInput<AsinhOp>(context, [](VjpBuilder &v, Value x) {
    return v.unary<RsqrtOp>(v.add(v.square(x), 1.0));
  });
  fromInput<AcoshOp>(context, [](VjpBuilder &v, Value x) {
    return v.unary<RsqrtOp>(v.mul(v.add(x, -1.0), v.add(x, 1.0)));
  });
  fromInput<AtanhOp>(context, [](VjpBuilder &v, Value x) {
    return v.unary<ReciprocalOp>(oneMinusSquare(v, x));
  });
}

static void attachActivations(MLIRContext *context) {
  fromResult<TanhOp>(
      context, [](VjpBuilder &v, Value y) { return oneMinusSquare(v, y); });
  fromResult<SigmoidOp>(
      context, [](VjpBuilder &v, Value y) { return v.mul(y, v.sub(1.0, y)); });
  // Reads the result, which the next contraction saves anyway. NaN passes the
  // cotangent through.
  attachVjp<ReluOp>(context, [](ReluOp op, VjpBuilder &v) {
    Value off = v.compare(ComparePredicate::le, op.getResult(), 0.0);
    v.give(0, v.select(off, v.scalar(0.0, v.dy()), v.dy()));
  });
  attachVjp<LeakyReluOp>(context, [](LeakyReluOp op, VjpBuilder &v) {
    double alpha = op.getAlpha().convertToDouble();
    // A positive slope preserves the sign.
    Value side = alpha > 0 ? op.getResult() : op.getInput();
    Value on = v.compare(ComparePredicate::gt, side, 0.0);
    v.give(0, v.select(on, v.dy(), v.mul(v.dy(), alpha)));
  });
  attachVjp<EluOp>(context, [](EluOp op, VjpBuilder &v) {
    Value x = v.wide(op.getInput()), dy = v.wideDy();
    Value slope = v.mul(v.unary<ExpOp>(x), op.getAlpha().convertToDouble());
    v.give(0, v.select(v.compare(ComparePredicate::gt, x, 0.0), dy,
                       v.mul(dy, slope)));
  });
  fromInput<SiluOp>(context, [](VjpBuilder &v, Value x) {
    Value gate = v.unary<SigmoidOp>(x);
    return v.mul(gate, v.add(v.mul(x, v.sub(1.0, gate)), 1.0));
  });
  fromInput<SoftplusOp>(
      context, [](VjpBuilder &v, Value x) { return v.unary<SigmoidOp>(x); });
  attachVjp<GeluOp>(context, [](GeluOp op, VjpBuilder &v) {
    v.give(0, v.mul(v.wideDy(),
                    geluSlope(v, v.wide(op.getInput()), op.getForm())));
  });
}

void mpc::attachUnaryVjps(MLIRContext *context) {
  withoutSlope<SignOp, FloorOp, CeilOp, RoundOp, StopGradientOp>(context);
  attachVjp<NegOp>(context,
                   [](NegOp, VjpBuilder &v) { v.give(0, v.neg(v.dy())); });
  attachVjp<AbsOp>(context, [](AbsOp op, VjpBuilder &v) {
    v.give(0, v.mul(v.dy(), v.unary<SignOp>(op.getInput())));
  });
  // Only called if both types are float.
  attachVjp<CastOp>(context, [](CastOp, VjpBuilder &v) { v.give(0, v.dy()); });
  attachExponentials(context);
  attachTrigonometry(context);
  attachActivations(context);
}
