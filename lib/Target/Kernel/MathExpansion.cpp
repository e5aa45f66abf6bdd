//===- MathExpansion.cpp - scalar or vector arithmetic and functions ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexMath.h"
#include "MathSymbol.h"

// Include after the symbols: functions find their operations by ADL.
#include "../Math/Activation.h"
#include "../Math/Circular.h"
#include "../Math/Hyperbolic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Type ValueMath::withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value ValueMath::constant(Type type, double value) {
  if (!isa<FloatType>(getElementTypeOrSelf(type)))
    return integer(type, static_cast<int64_t>(value));
  Attribute element = b.getFloatAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(element));
}

Value ValueMath::integer(Type type, int64_t value) {
  Type elementType = getElementTypeOrSelf(type);
  unsigned width =
      elementType.isIndex() ? 64 : elementType.getIntOrFloatBitWidth();
  Attribute element = IntegerAttr::get(
      elementType, APInt(width, static_cast<uint64_t>(value), /*isSigned=*/true,
                         /*implicitTrunc=*/true));
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(element));
}

/// Returns the kind of a maximum or minimum of numbers of type `element`.
static arith::AtomicRMWKind extremumOf(Type element, bool isMaximum,
                                       bool isUnsigned) {
  using Kind = arith::AtomicRMWKind;
  if (isa<FloatType>(element))
    return isMaximum ? Kind::maximumf : Kind::minimumf;
  if (element.isInteger(1))
    return isMaximum ? Kind::ori : Kind::andi;
  if (isUnsigned)
    return isMaximum ? Kind::maxu : Kind::minu;
  return isMaximum ? Kind::maxs : Kind::mins;
}

Value ValueMath::extremum(Value x, Value y, bool isMaximum, bool isUnsigned) {
  Type element = getElementTypeOrSelf(x.getType());
  return arith::getReductionOp(extremumOf(element, isMaximum, isUnsigned), b,
                               loc, x, y);
}

Value ValueMath::extremumIdentity(Type type, bool isMaximum, bool isUnsigned) {
  return arith::getIdentityValue(extremumOf(type, isMaximum, isUnsigned), type,
                                 b, loc);
}

Value ValueMath::any(Value condition) {
  if (!isa<VectorType>(condition.getType()))
    return condition;
  return make<vector::ReductionOp>(vector::CombiningKind::OR, condition);
}

Value ValueMath::bits(Value x) {
  unsigned width = getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth();
  return convert<arith::BitcastOp>(x, b.getIntegerType(width));
}

Value ValueMath::narrowDouble(Value x, Type element) {
  if (!isDouble(x.getType()) || element.isF64())
    return x;
  return element.isF32() ? truncateFloat(x, element) : truncateToOdd(x);
}

Value ValueMath::intrinsic(StringRef name, Type type, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name),
                                       operands)
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value ValueMath::splat(Value value, int64_t lanes) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  return make<vector::BroadcastOp>(VectorType::get({lanes}, value.getType()),
                                   value);
}

Value ValueMath::countFrom(Value start, int64_t lanes) {
  if (lanes == 1)
    return start;
  SmallVector<Attribute> steps;
  for (int64_t lane = 0; lane < lanes; ++lane)
    steps.push_back(b.getIntegerAttr(start.getType(), lane));
  auto type = VectorType::get({lanes}, start.getType());
  Value step =
      arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, steps));
  return add(splat(start, lanes), step);
}

Value ValueMath::reinterpret(Value vector, Type element) {
  auto type = cast<VectorType>(vector.getType());
  int64_t bits = type.getNumElements() * type.getElementTypeBitWidth();
  return make<vector::BitCastOp>(
      VectorType::get({bits / element.getIntOrFloatBitWidth()}, element),
      vector);
}

SmallVector<Value> ValueMath::partsOf(Value x, int64_t lanes) {
  int64_t count = cast<VectorType>(x.getType()).getNumElements();
  if (count == lanes)
    return {x};
  SmallVector<Value> parts;
  for (int64_t first = 0; first < count; first += lanes)
    parts.push_back(
        shuffle(x, x, llvm::to_vector(llvm::seq(first, first + lanes))));
  return parts;
}

Value ValueMath::joined(SmallVector<Value> parts) {
  while (parts.size() > 1) {
    int64_t lanes = cast<VectorType>(parts.front().getType()).getNumElements();
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, 2 * lanes));
    SmallVector<Value> wider;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      wider.push_back(shuffle(parts[i], parts[i + 1], order));
    parts = std::move(wider);
  }
  return parts.front();
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

Value ValueMath::truncateToOdd(Value x) {
  Value nearest = truncateFloat(x, b.getF32Type());
  Value widened = extendFloat(nearest, b.getF64Type());
  Value pattern = bits(nearest);
  // Round to odd: an inexact result with an even last bit moves to its odd
  // neighbor towards x.
  Value inexact = compare(CmpFPredicate::ONE, widened, x);
  Value even = compare(CmpIPredicate::eq, bitAnd(pattern, 1), 0);
  Value below = compare(CmpFPredicate::OLT, abs(widened), abs(x));
  Value odd = select(below, add(pattern, 1), add(pattern, -1));
  Value moved = select(bitAnd(inexact, even), odd, pattern);
  return fromBits(moved, nearest.getType());
}

Value ValueMath::roundToBf16(Value x) {
  Value pattern = bits(x);
  Value last = bitAnd(shiftRight(pattern, 16), 1);
  Value rounded = add(add(pattern, 0x7fff), last);
  Value isNan = compare(CmpFPredicate::UNO, x, x);
  // A quiet NaN whose payload survives in the upper half.
  rounded = select(isNan, bitOr(pattern, 0x400000), rounded);
  return fromBits(bitAnd(rounded, static_cast<int64_t>(0xffff0000u)),
                  x.getType());
}

/// f32 lanes of a vector of 512 bits.
static constexpr int64_t kFullLanes = 16;

Value ValueMath::widenBf16(Value pattern, bool permutes) {
  Type f32 = b.getF32Type();
  auto type = dyn_cast<VectorType>(pattern.getType());
  int64_t count = type ? type.getNumElements() : 1;
  if (!permutes || count < kFullLanes || !llvm::isPowerOf2_64(count))
    return fromBits(shiftLeft(extendUnsigned(pattern, b.getI32Type()), 16),
                    f32);
  // One permutation inserts zeros below the words, instead of a zero extension
  // and a shift.
  Value zeros = integer(type, 0);
  SmallVector<Value> parts;
  for (int64_t first = 0; first < count; first += kFullLanes) {
    SmallVector<int64_t> order;
    for (int64_t lane = first; lane < first + kFullLanes; ++lane)
      order.append({count, lane});
    parts.push_back(reinterpret(shuffle(pattern, zeros, order), f32));
  }
  return joined(parts);
}

ValueMath::Bf16 ValueMath::roundToBf16ByUnit(Value x, bool permutes) {
  // Class bit of subnormal numbers for vfpclassps.
  constexpr int64_t kSubnormal = 0x20;
  auto patternOf = [&](Value rounded) {
    return truncateInt(shiftRight(bits(rounded), 16), b.getI16Type());
  };
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type || type.getNumElements() < kFullLanes ||
      !llvm::isPowerOf2_64(type.getNumElements())) {
    Value rounded = roundToBf16(x);
    return {rounded, patternOf(rounded)};
  }
  SmallVector<Value> parts = partsOf(x, kFullLanes), rounded;
  Value anySubnormal, kind = integer(b.getI32Type(), kSubnormal);
  for (Value part : parts) {
    Value isSubnormal =
        intrinsic("llvm.x86.avx512.fpclass.ps.512",
                  VectorType::get({kFullLanes}, b.getI1Type()), {part, kind});
    anySubnormal =
        anySubnormal ? bitOr(anySubnormal, isSubnormal) : isSubnormal;
  }
  // Two vectors are rounded into one at the price of one.
  if (parts.size() == 1)
    rounded.push_back(intrinsic("llvm.x86.avx512bf16.cvtneps2bf16.512",
                                VectorType::get({kFullLanes}, b.getBF16Type()),
                                parts.front()));
  for (size_t i = 0; i + 1 < parts.size(); i += 2)
    rounded.push_back(
        intrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512",
                  VectorType::get({2 * kFullLanes}, b.getBF16Type()),
                  {parts[i + 1], parts[i]}));
  Type patternType = withElement(type, b.getI16Type());
  Carried both = IndexMath{b, loc}.choose(
      any(anySubnormal), TypeRange{type, patternType},
      [&] {
        Value slow = roundToBf16(x);
        return Carried{slow, patternOf(slow)};
      },
      [&] {
        Value pattern = bits(joined(rounded));
        return Carried{widenBf16(pattern, permutes), pattern};
      });
  return {both[0], both[1]};
}

Value ValueMath::roundToF16(Value x) {
  return extendFloat(truncateFloat(x, b.getF16Type()), b.getF32Type());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

bool MathExpansion::usesScalef(Type type) const {
  auto vector = dyn_cast<VectorType>(type);
  return target.hasScalef && vector &&
         vector.getNumElements() % (isDouble(type) ? 8 : 16) == 0;
}

Value MathExpansion::scalef(Value x, Value n) {
  auto type = cast<VectorType>(x.getType());
  bool wide = isDouble(type);
  int64_t lanes = wide ? 8 : 16;
  StringRef name = wide ? "llvm.x86.avx512.mask.scalef.pd.512"
                        : "llvm.x86.avx512.mask.scalef.ps.512";
  Value everyLane = integer(b.getIntegerType(lanes), -1);
  Value currentRounding = integer(b.getI32Type(), 4);
  SmallVector<Value> scaled;
  for (auto [source, power] :
       llvm::zip_equal(partsOf(x, lanes), partsOf(n, lanes)))
    scaled.push_back(
        intrinsic(name, VectorType::get({lanes}, type.getElementType()),
                  {source, power, source, everyLane, currentRounding}));
  return joined(scaled);
}

template <typename Function, typename... Values>
Value MathExpansion::expand(StringRef name, Function function, Value x,
                            Values... y) {
  if (target.call)
    return target.call(b, loc, name, {x, y...});
  if (isDouble(x.getType()))
    return function(Symbol<double>(*this, x), Symbol<double>(*this, y)...)
        .value;
  return function(Symbol<float>(*this, x), Symbol<float>(*this, y)...).value;
}

#define MPC_EXPANSION(name)                                                    \
  Value MathExpansion::name(Value x) {                                         \
    return expand(#name, [](auto x) { return mpc::name(x); }, x);              \
  }
#define MPC_EXPANSION_2(name)                                                  \
  Value MathExpansion::name(Value x, Value y) {                                \
    return expand(                                                             \
        #name, [](auto x, auto y) { return mpc::name(x, y); }, x, y);          \
  }
MPC_MATH_1(MPC_EXPANSION)
MPC_MATH_2(MPC_EXPANSION_2)
#undef MPC_EXPANSION
#undef MPC_EXPANSION_2

Value MathExpansion::expNonPositive(Value x) {
  return expand("exp", [](auto x) { return mpc::expNonPositive(x); }, x);
}

Value MathExpansion::geluSeenIn(Value x, Type seen) {
  if (!seen || isDouble(x.getType()))
    return gelu(x);
  if (target.call)
    return call(seen.isBF16() ? "geluBfloat16" : "geluHalf", x);
  Symbol<float> symbol(*this, x);
  return (seen.isBF16() ? geluBfloat16(symbol) : geluHalf(symbol)).value;
}

//===----------------------------------------------------------------------===//
// fmod
//===----------------------------------------------------------------------===//

Value MathExpansion::fmod(Value x, Value y) {
  if (target.call)
    return target.call(b, loc, "rem", {x, y});
  if (!isDouble(x.getType())) {
    Value wide =
        fmod(extendFloat(x, b.getF64Type()), extendFloat(y, b.getF64Type()));
    return truncateFloat(wide, b.getF32Type());
  }
  Type type = x.getType();
  Value zero = constant(type, 0.0), one = constant(type, 1.0);
  Value valid = bitAnd(compare(CmpFPredicate::OLT, abs(x), kInfinity),
                       compare(CmpFPredicate::OGT, abs(y), 0.0));
  Value start = select(valid, abs(x), zero),
        divisor = select(valid, abs(y), one);

  // Exponents; a subnormal divisor is normalized first.
  Value subnormal = compare(CmpFPredicate::OLT, divisor, 0x1p-1022);
  Value normal = select(subnormal, mul(divisor, 0x1p54), divisor);
  Value exponent = shiftRight(bits(normal), 52);
  exponent = select(subnormal, add(exponent, -54), exponent);

  // Each round subtracts multiples of divisor * 2^k, at most 2^41 of them: the
  // quotient and the remainder are exact.
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{type}, ValueRange{start},
      [&](OpBuilder &, Location, ValueRange state) {
        Value more = any(compare(CmpFPredicate::OGE, state[0], divisor));
        scf::ConditionOp::create(b, loc, more, state);
      },
      [&](OpBuilder &, Location, ValueRange state) {
        Value rest = state[0];
        Value k = add(sub(shiftRight(bits(rest), 52), exponent), -40);
        Value none = integer(k.getType(), 0);
        k = select(compare(CmpIPredicate::sgt, k, none), k, none);
        Value half = shiftRight(k, 1);
        auto power = [&](Value n) {
          Symbol<unsigned long long> word(*this, n);
          return detail::powerOfTwo<Symbol<double>>(word).value;
        };
        Value step = mul(mul(divisor, power(half)), power(sub(k, half)));
        Value quotient = truncate(div(rest, step));
        Value next = fma(neg(quotient), step, rest);
        // The division may have rounded up to the next integer.
        next = select(compare(CmpFPredicate::OLT, next, zero), add(next, step),
                      next);
        // Finished lanes are unchanged, also those whose divisor is infinite.
        next = select(compare(CmpFPredicate::OGE, rest, divisor), next, rest);
        scf::YieldOp::create(b, loc, next);
      });
  return select(valid, copySign(loop.getResult(0), x), constant(type, kNan));
}
