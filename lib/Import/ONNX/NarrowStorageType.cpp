//===- NarrowStorageType.cpp - sub-byte and 8-bit float types -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoding is a table lookup. Encoding is a binary search among the rounding
// boundaries between adjacent codes: exact for every mpc type, including
// subnormals and ties.
//
//===----------------------------------------------------------------------===//

#include "NarrowStorageType.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "Importer.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;
using llvm::APFloat;
using llvm::APInt;

const NarrowStorageType *mpc::onnx::smallTypeOf(int32_t dataType) {
  static const NarrowStorageType e4m3{8, true, &APFloat::Float8E4M3FN()},
      e4m3Fnuz{8, true, &APFloat::Float8E4M3FNUZ()},
      e5m2{8, true, &APFloat::Float8E5M2()},
      e5m2Fnuz{8, true, &APFloat::Float8E5M2FNUZ()},
      e2m1{4, true, &APFloat::Float4E2M1FN()},
      e8m0{8, false, &APFloat::Float8E8M0FNU()}, uint4{4, false}, int4{4, true},
      uint2{2, false}, int2{2, true};
  switch (dataType) {
  case kFloat8E4M3FN:
    return &e4m3;
  case kFloat8E4M3FNUZ:
    return &e4m3Fnuz;
  case kFloat8E5M2:
    return &e5m2;
  case kFloat8E5M2FNUZ:
    return &e5m2Fnuz;
  case kFloat4E2M1:
    return &e2m1;
  case kFloat8E8M0:
    return &e8m0;
  case kUint4:
    return &uint4;
  case kInt4:
    return &int4;
  case kUint2:
    return &uint2;
  case kInt2:
    return &int2;
  default:
    return nullptr;
  }
}

Type mpc::onnx::storageTypeOf(int32_t dataType, MLIRContext *context) {
  const NarrowStorageType *small = smallTypeOf(dataType);
  if (!small)
    return elementTypeOf(dataType, context);
  bool isSigned = !small->semantics && small->isSigned;
  return IntegerType::get(
      context, 8, isSigned ? IntegerType::Signless : IntegerType::Unsigned);
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Returns the number that `code` represents.
static double decode(const NarrowStorageType &type, unsigned code) {
  APFloat number(*type.semantics, APInt(unsigned(type.bits), code));
  bool loses = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

Value mpc::onnx::decodeNarrow(NodeImport &n, Value value, Type element) {
  if (n.failed() || !value)
    return nullptr;
  const NarrowStorageType *type = smallTypeOf(n.narrowStorageType(value));
  Value number = n.carried(value);
  if (!type->semantics)
    return n.cast(number, element);
  Type read = isa<FloatType>(element) ? element : Type(n.builder.getF32Type());
  SmallVector<double> table;
  for (unsigned code = 0; code < 1u << type->bits; ++code)
    table.push_back(decode(*type, code));
  Value numbers = n.dense({int64_t(table.size())}, table, read);
  return n.cast(n.gather(numbers, number, 0), element);
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

namespace {

/// Codes of the non-negative numbers and of special values.
struct CodeTable {
  CodeTable(const NarrowStorageType &type, bool single,
            const NarrowRounding &rounding);

  /// `starts[i]` is the smallest number that rounds to `codes[i]`; NaN as a
  /// sentinel after the last. The length is a power of two.
  SmallVector<double> starts, codes;
  /// Codes of NaN and of infinity.
  unsigned nan = 0, infinity = 0;
};

} // namespace

/// Returns the next f32 (`single`) or f64 number above `value`.
static double above(double value, bool single) {
  return single
             ? double(std::nextafter(float(value),
                                     std::numeric_limits<float>::infinity()))
             : std::nextafter(value, std::numeric_limits<double>::infinity());
}

CodeTable::CodeTable(const NarrowStorageType &type, bool single,
                     const NarrowRounding &rounding) {
  const llvm::fltSemantics &semantics = *type.semantics;
  bool powers = !type.isSigned;
  unsigned half = powers ? 255 : 1u << (type.bits - 1);
  SmallVector<double> numbers;
  for (unsigned code = 0; code < half && std::isfinite(decode(type, code));
       ++code)
    numbers.push_back(decode(type, code));
  unsigned largest = unsigned(numbers.size()) - 1;
  // Boundary at the next number if the type had a larger range.
  double last = numbers[largest];
  numbers.push_back(powers ? 2 * last : 2 * last - numbers[largest - 1]);
  starts.push_back(0);
  codes.push_back(0);
  for (unsigned code = 1; code <= largest + 1; ++code) {
    double low = numbers[code - 1], high = numbers[code];
    double middle = low + (high - low) / 2;
    double start = code % 2 == 0 ? middle : above(middle, single);
    // Power-of-two formats have no even codes: ties round up.
    if (powers)
      start = rounding.powers == "down"      ? high
              : rounding.powers == "nearest" ? middle
                                             : above(low, single);
    starts.push_back(start);
    codes.push_back(code);
  }
  // NaN: the format's canonical code, without a sign.
  if (APFloat::semanticsHasNaN(semantics)) {
    APInt bits = APFloat::getNaN(semantics).bitcastToAPInt();
    nan = unsigned(bits.getZExtValue());
  } else {
    // Formats without NaN use the sign bit alone, as ml_dtypes does.
    nan = half;
  }
  unsigned beyond = nan;
  if (APFloat::semanticsHasInf(semantics))
    beyond =
        unsigned(APFloat::getInf(semantics).bitcastToAPInt().getZExtValue());
  bool isPermutation = !APFloat::semanticsHasNaN(semantics);
  codes.back() = rounding.saturate || isPermutation ? largest : beyond;
  infinity = rounding.saturateInfinity || isPermutation ? unsigned(codes.back())
                                                        : beyond;
  if (powers)
    infinity = nan;
  while (!llvm::isPowerOf2_64(starts.size())) {
    starts.push_back(std::numeric_limits<double>::quiet_NaN());
    codes.push_back(codes.back());
  }
}

/// Returns the sign bit of elements of `value`, including negative zero.
static Value hasSign(NodeImport &n, Value value) {
  Type type = n.element(value);
  Value zero = n.scalar(0, type);
  Value isZero = n.compare(ComparePredicate::eq, value, zero);
  Value told = n.select(isZero, n.op<ReciprocalOp>(value), value);
  return n.compare(ComparePredicate::lt, told, zero);
}

static Value toSmallFloat(NodeImport &n, Value value,
                          const NarrowStorageType &type,
                          const NarrowRounding &rounding) {
  Type i32 = n.builder.getI32Type();
  // 16-bit floats and integers are exact in f32.
  auto integer = dyn_cast_if_present<IntegerType>(n.element(value));
  bool single = integer ? integer.getWidth() <= 16 : !n.element(value).isF64();
  Type wide =
      single ? Type(n.builder.getF32Type()) : Type(n.builder.getF64Type());
  CodeTable table(type, single, rounding);
  value = n.cast(value, wide);
  Value size = n.op<AbsOp>(value);
  int64_t places = int64_t(table.starts.size());
  Value starts = n.dense({places}, table.starts, wide);
  Value place = n.broadcast(n.scalar(0, i32), n.shape(value));
  for (int64_t step = places / 2; step > 0; step /= 2) {
    Value next = n.op<AddOp>({place, n.scalar(double(step), i32)});
    Value reached =
        n.compare(ComparePredicate::ge, size, n.gather(starts, next, 0));
    place = n.select(reached, next, place);
  }
  Value code = n.gather(n.dense({places}, table.codes, i32), place, 0);
  if (table.infinity != unsigned(table.codes.back())) {
    Value isInfinite =
        n.op<IsInfOp>(value, {n.attr("positive", n.builder.getBoolAttr(true)),
                              n.attr("negative", n.builder.getBoolAttr(true))});
    code = n.select(isInfinite, n.scalar(table.infinity, i32), code);
  }
  if (type.isSigned) {
    double sign = std::exp2(type.bits - 1);
    Value signedCode = n.op<AddOp>({code, n.scalar(sign, i32)});
    Value negative = hasSign(n, value);
    // In FNUZ types the code of minus zero is NaN, which has no sign.
    if (table.nan == unsigned(sign) &&
        APFloat::semanticsHasNaN(*type.semantics)) {
      Value plain = n.op<OrOp>(
          {n.compare(ComparePredicate::eq, code, n.scalar(0, i32)),
           n.compare(ComparePredicate::eq, code, n.scalar(sign, i32))});
      negative = n.op<AndOp>({negative, n.op<NotOp>(plain)});
    }
    code = n.select(negative, signedCode, code);
  }
  return n.select(n.op<IsNanOp>(value), n.scalar(table.nan, i32), code);
}

Value mpc::onnx::encodeNarrow(NodeImport &n, Value value, int32_t dataType,
                              const NarrowRounding &rounding) {
  if (n.failed() || !value)
    return nullptr;
  const NarrowStorageType &type = *smallTypeOf(dataType);
  Type storage = storageTypeOf(dataType, n.builder.getContext());
  Value bytes;
  if (type.semantics) {
    bytes = toSmallFloat(n, value, type, rounding);
  } else {
    Type i32 = n.builder.getI32Type();
    Value number = n.cast(value, i32);
    double span = std::exp2(type.bits);
    bytes = n.op<AndOp>({number, n.scalar(span - 1, i32)});
    // Sign extension: the sign bit has negative weight.
    if (type.isSigned) {
      Value sign = n.scalar(span / 2, i32);
      bytes = n.op<SubOp>({n.op<XorOp>({bytes, sign}), sign});
    }
  }
  return n.withNarrowType(n.cast(bytes, storage), dataType);
}
