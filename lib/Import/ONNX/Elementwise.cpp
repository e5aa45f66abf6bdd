//===- Elementwise.cpp - elementwise arithmetic ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unary, binary and variadic arithmetic, and casts. The dialect has NumPy
// broadcasting.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "NarrowStorageType.h"
#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

template <typename OpTy> static LogicalResult unary(NodeImport &n) {
  return n.result(n.op<OpTy>(n.in(0)));
}

template <typename OpTy> static LogicalResult binary(NodeImport &n) {
  return n.result(n.op<OpTy>({n.in(0), n.in(1)}));
}

/// Left fold over any number of operands.
template <typename OpTy> static Value foldAll(NodeImport &n) {
  Value total = n.in(0);
  for (size_t i = 1; i < n.inputCount(); ++i)
    total = n.op<OpTy>({total, n.in(i)});
  return total;
}

template <typename OpTy> static LogicalResult variadic(NodeImport &n) {
  return n.result(foldAll<OpTy>(n));
}

static LogicalResult convertMean(NodeImport &n) {
  Value total = foldAll<AddOp>(n);
  return n.result(
      n.op<DivOp>({total, n.scalar(double(n.inputCount()), n.element(total))}));
}

/// The exponent may have another type; the result has the base's type.
static LogicalResult convertPow(NodeImport &n) {
  Value base = n.in(0), exponent = n.in(1);
  Type type = n.element(base);
  if (!n.isFloat(base) && n.isFloat(exponent)) {
    Type wide = n.builder.getF64Type();
    Value power = n.op<PowOp>({n.cast(base, wide), n.cast(exponent, wide)});
    return n.result(n.cast(power, type));
  }
  return n.result(n.op<PowOp>({base, n.cast(exponent, type)}));
}

/// Without fmod the result has the divisor's sign, as in Python.
static LogicalResult convertMod(NodeImport &n) {
  Value lhs = n.in(0), rhs = n.in(1);
  bool fmod = n.flag("fmod");
  if (n.isFloat(lhs) && !fmod)
    return n.error() << "attribute 'fmod' must be 1 for float operands";
  Value remainder = n.op<RemOp>({lhs, rhs});
  if (fmod || n.isUnsigned(lhs))
    return n.result(remainder);
  Value zero = n.scalar(0, n.element(lhs));
  Value negative = n.compare(ComparePredicate::lt, remainder, zero);
  Value divisorNegative = n.compare(ComparePredicate::lt, rhs, zero);
  Value differ = n.op<XorOp>({negative, divisorNegative});
  Value wrong =
      n.op<AndOp>({differ, n.compare(ComparePredicate::ne, remainder, zero)});
  return n.result(n.select(wrong, n.op<AddOp>({remainder, rhs}), remainder));
}

static LogicalResult convertBitShift(NodeImport &n) {
  std::string direction = n.stringAttr("direction", "");
  if (direction == "LEFT")
    return binary<ShiftLeftOp>(n);
  if (direction == "RIGHT")
    return binary<ShiftRightOp>(n);
  return n.error() << "attribute 'direction' is '" << direction
                   << "', expected LEFT or RIGHT";
}

static LogicalResult convertClip(NodeImport &n) {
  Value x = n.in(0), low, high;
  if (n.version < 11) {
    if (n.hasAttr("min"))
      low = n.scalar(n.floatAttr("min", 0), n.element(x));
    if (n.hasAttr("max"))
      high = n.scalar(n.floatAttr("max", 0), n.element(x));
  } else {
    if (n.has(1))
      low = n.in(1);
    if (n.has(2))
      high = n.in(2);
  }
  if (n.failed())
    return failure();
  for (Value bound : {low, high})
    if (bound && n.rank(bound) > n.rank(x))
      return n.error() << "a bound has " << n.rank(bound)
                       << " dimensions, expected a scalar";
  if (low && high)
    return n.result(n.op<ClampOp>({x, low, high}));
  if (low)
    return n.result(n.op<MaxOp>({x, low}));
  if (high)
    return n.result(n.op<MinOp>({x, high}));
  return n.result(x);
}

/// A cast of the model is pinned: no pass may drop its rounding.
static LogicalResult castTo(NodeImport &n, Value value, Type type) {
  bool rounds = n.isFloat(value) && isa<FloatType>(type);
  return n.result(n.cast(value, type, /*pinned=*/rounds));
}

/// Casts to a small type (NarrowStorageType.h).
static LogicalResult castToSmall(NodeImport &n, Value value, int32_t to) {
  NarrowRounding rounding;
  rounding.saturate = n.flag("saturate", true);
  bool fnuz = to == onnx::kFloat8E4M3FNUZ || to == onnx::kFloat8E5M2FNUZ;
  rounding.saturateInfinity = to != kFloat8E8M0 && (!fnuz || n.version >= 24);
  rounding.powers = n.stringAttr("round_mode", "up");
  if (!llvm::is_contained({"up", "down", "nearest"}, rounding.powers))
    return n.error() << "attribute 'round_mode' is '" << rounding.powers
                     << "', expected up, down or nearest";
  return n.result(encodeNarrow(n, value, to, rounding));
}

static LogicalResult castTo(NodeImport &n, int32_t to, Type type) {
  Value value = n.in(0);
  int32_t from = n.narrowStorageType(value);
  if (n.failed())
    return failure();
  if (from != 0 && from == to)
    return n.result(value);
  if (from != 0)
    value = decodeNarrow(n, value,
                         smallTypeOf(to) ? Type(n.builder.getF32Type()) : type);
  if (smallTypeOf(to))
    return castToSmall(n, value, to);
  return from != 0 ? n.result(value) : castTo(n, value, type);
}

static LogicalResult convertCast(NodeImport &n) {
  auto to = int32_t(n.intAttr("to", 0));
  Type type = storageTypeOf(to, n.builder.getContext());
  if (!type)
    return n.error() << "attribute 'to' is " << dataTypeName(to)
                     << ", which mpc does not support";
  return castTo(n, to, type);
}

static LogicalResult convertCastLike(NodeImport &n) {
  Value like = n.in(1);
  return n.failed() ? failure()
                    : castTo(n, n.narrowStorageType(like), n.element(like));
}

OpFamily mpc::onnx::elementwiseOps() {
  static const OpEntry entries[] = {
      {"Abs 6,13 1", unary<AbsOp>},
      {"Acos 7,22 1", unary<AcosOp>},
      {"Acosh 9,22 1", unary<AcoshOp>},
      {"Add 7,13,14 2", binary<AddOp>},
      {"Asin 7,22 1", unary<AsinOp>},
      {"Asinh 9,22 1", unary<AsinhOp>},
      {"Atan 7,22 1", unary<AtanOp>},
      {"Atanh 9,22 1", unary<AtanhOp>},
      {"BitShift 11 2 direction", convertBitShift},
      {"BitwiseAnd 18 2", binary<AndOp>},
      {"BitwiseNot 18 1", unary<NotOp>},
      {"BitwiseOr 18 2", binary<OrOp>},
      {"BitwiseXor 18 2", binary<XorOp>},
      {"Cast 6,9,13,19,21,23,24,25 1 to saturate round_mode", convertCast},
      {"CastLike 15,19,21,23,24,25 2 saturate round_mode", convertCastLike},
      {"Ceil 6,13 1", unary<CeilOp>},
      {"Clip 6,11,12,13 1-3 min max", convertClip},
      {"Cos 7,22 1", unary<CosOp>},
      {"Cosh 9,22 1", unary<CoshOp>},
      {"Div 7,13,14 2", binary<DivOp>},
      {"Erf 9,13 1", unary<ErfOp>},
      {"Exp 6,13 1", unary<ExpOp>},
      {"Floor 6,13 1", unary<FloorOp>},
      {"Log 6,13 1", unary<LogOp>},
      {"Max 6,8,12,13 1+", variadic<MaxOp>},
      {"Mean 6,8,13 1+", convertMean},
      {"Min 6,8,12,13 1+", variadic<MinOp>},
      {"Mod 10,13 2 fmod", convertMod},
      {"Mul 7,13,14 2", binary<MulOp>},
      {"Neg 6,13 1", unary<NegOp>},
      {"Pow 7,12,13,15 2", convertPow},
      {"Reciprocal 6,13 1", unary<ReciprocalOp>},
      {"Round 11,22 1", unary<RoundOp>},
      {"Sign 9,13 1", unary<SignOp>},
      {"Sin 7,22 1", unary<SinOp>},
      {"Sinh 9,22 1", unary<SinhOp>},
      {"Sqrt 6,13 1", unary<SqrtOp>},
      {"Sub 7,13,14 2", binary<SubOp>},
      {"Sum 6,8,13 1+", variadic<AddOp>},
      {"Tan 7,22 1", unary<TanOp>},
  };
  return entries;
}
