//===- BinaryVjps.cpp - derivatives of binary and ternary ops -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// VjpBuilder::give reduces over broadcast dimensions.
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

using namespace mlir;
using namespace mpc;

static void attachArithmetic(MLIRContext *context) {
  attachVjp<AddOp>(context, [](AddOp, VjpBuilder &v) {
    v.give(0, v.dy());
    v.give(1, v.dy());
  });
  attachVjp<SubOp>(context, [](SubOp op, VjpBuilder &v) {
    v.give(0, v.dy());
    // Negates after the reduction, on fewer elements.
    if (v.needs(1))
      v.give(1, v.neg(v.sumTo(v.dy(), shapeOf(op.getRhs()))));
  });
  attachVjp<MulOp>(context, [](MulOp op, VjpBuilder &v) {
    if (v.needs(0))
      v.give(0, v.mul(v.dy(), op.getRhs()));
    if (v.needs(1))
      v.give(1, v.mul(v.dy(), op.getLhs()));
  });
  attachVjp<DivOp>(context, [](DivOp op, VjpBuilder &v) {
    Value quotient = v.div(v.dy(), op.getRhs());
    v.give(0, quotient);
    if (v.needs(1))
      v.give(1, v.neg(v.mul(quotient, op.getResult())));
  });
  // lhs - n * rhs with an integer n.
  attachVjp<RemOp>(context, [](RemOp op, VjpBuilder &v) {
    v.give(0, v.dy());
    if (!v.needs(1))
      return;
    Value whole = v.unary<RoundOp>(
        v.div(v.sub(op.getLhs(), op.getResult()), op.getRhs()));
    v.give(1, v.neg(v.mul(v.dy(), whole)));
  });
}

/// max and min: the extremum gets the cotangent; ties split it.
template <typename OpTy> static void attachExtremum(MLIRContext *context) {
  attachVjp<OpTy>(context, [](OpTy op, VjpBuilder &v) {
    constexpr bool kMax = std::is_same_v<OpTy, MaxOp>;
    Value lhs = op.getLhs(), rhs = op.getRhs();
    Value share = v.keepWhere(v.compare(ComparePredicate::eq, lhs, rhs),
                              v.mul(v.dy(), 0.5));
    Value left =
        v.compare(kMax ? ComparePredicate::gt : ComparePredicate::lt, lhs, rhs);
    Value right =
        v.compare(kMax ? ComparePredicate::lt : ComparePredicate::gt, lhs, rhs);
    if (v.needs(0))
      v.give(0, v.select(left, v.dy(), share));
    if (v.needs(1))
      v.give(1, v.select(right, v.dy(), share));
  });
}

static void vjpOfPow(PowOp op, VjpBuilder &v) {
  Value base = v.wide(op.getLhs()), exponent = v.wide(op.getRhs()),
        dy = v.wideDy();
  if (v.needs(0)) {
    ElementsAttr constant = constantOf(op.getRhs());
    std::optional<double> fixed =
        constant ? splatValue(constant) : std::optional<double>();
    Value slope;
    if (fixed && *fixed == 2.0) {
      slope = v.mul(base, 2.0);
    } else if (fixed && *fixed == 3.0) {
      slope = v.mul(v.square(base), 3.0);
    } else {
      Value power = v.create<PowOp>(base, v.add(exponent, -1.0));
      // x^0 is constant, also at x = 0.
      slope = v.select(v.compare(ComparePredicate::eq, exponent, 0.0),
                       v.scalar(0.0, exponent), v.mul(exponent, power));
    }
    v.give(0, v.mul(dy, slope));
  }
  if (v.needs(1)) {
    // 0^y is 0 for all y > 0.
    Value flat = v.compare(ComparePredicate::eq, base, 0.0);
    Value log = v.unary<LogOp>(v.select(flat, v.scalar(1.0, base), base));
    v.give(1, v.mul(dy, v.mul(v.wide(op.getResult()), log)));
  }
}

static void vjpOfClamp(ClampOp op, VjpBuilder &v) {
  Value x = op.getInput(), low = op.getLow(), high = op.getHigh();
  Value below = v.compare(ComparePredicate::lt, x, low),
        above = v.compare(ComparePredicate::gt, x, high),
        zero = v.scalar(0.0, v.dy());
  if (v.needs(0))
    v.give(0, v.select(below, zero, v.select(above, zero, v.dy())));
  // If the bounds cross, the upper one takes precedence.
  Value crossed = v.compare(ComparePredicate::gt, low, high);
  if (v.needs(1))
    v.give(1, v.select(crossed, zero, v.keepWhere(below, v.dy())));
  if (v.needs(2))
    v.give(2, v.select(crossed, v.dy(), v.keepWhere(above, v.dy())));
}

void mpc::attachBinaryVjps(MLIRContext *context) {
  attachArithmetic(context);
  attachExtremum<MaxOp>(context);
  attachExtremum<MinOp>(context);
  attachVjp<PowOp>(context, [](PowOp op, VjpBuilder &v) { vjpOfPow(op, v); });
  attachVjp<Atan2Op>(context, [](Atan2Op op, VjpBuilder &v) {
    Value y = v.wide(op.getLhs()), x = v.wide(op.getRhs());
    Value scaled = v.div(v.wideDy(), v.add(v.square(x), v.square(y)));
    if (v.needs(0))
      v.give(0, v.mul(scaled, x));
    if (v.needs(1))
      v.give(1, v.neg(v.mul(scaled, y)));
  });
  attachVjp<SelectOp>(context, [](SelectOp op, VjpBuilder &v) {
    if (v.needs(1))
      v.give(1, v.keepWhere(op.getCondition(), v.dy()));
    if (v.needs(2))
      v.give(2, v.select(op.getCondition(), v.scalar(0.0, v.dy()), v.dy()));
  });
  attachVjp<ClampOp>(context,
                     [](ClampOp op, VjpBuilder &v) { vjpOfClamp(op, v); });
}
