//===- PrintTypes.cpp - types and literals --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPrinter.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace mpc;

std::string KernelPrinter::typeName(Type type, Operation *op) {
  if (auto vector = dyn_cast<VectorType>(type);
      vector && vector.getRank() == 1 && !vector.isScalable())
    return "mpc::Vector<" + typeName(vector.getElementType(), op) + ", " +
           std::to_string(vector.getDimSize(0)) + ">";
  if (type.isIndex())
    return index64 ? "long long" : "int";
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  if (type.isF16())
    return "mpc::half";
  if (type.isBF16())
    return "mpc::bfloat16";
  if (auto integer = dyn_cast<IntegerType>(type))
    switch (integer.getWidth()) {
    case 1:
      return "bool";
    case 8:
      return "signed char";
    case 16:
      return "short";
    case 32:
      return "int";
    case 64:
      return "long long";
    }
  std::string text;
  llvm::raw_string_ostream(text) << type;
  fail(op, "uses the type " + text + ", which kernels do not support");
  return "void";
}

std::string KernelPrinter::unsignedName(Type type) {
  Type element = getElementTypeOrSelf(type);
  unsigned width =
      element.isIndex() ? (index64 ? 64 : 32) : element.getIntOrFloatBitWidth();
  switch (width) {
  case 8:
    return "unsigned char";
  case 16:
    return "unsigned short";
  case 64:
    return "unsigned long long";
  default:
    return width == 1 ? "bool" : "unsigned";
  }
}

/// Returns the shortest decimal that round-trips `value`, with a point or
/// exponent.
static std::string decimal(const APFloat &value) {
  for (unsigned digits = 1;; ++digits) {
    SmallString<32> text;
    value.toString(text, digits, /*FormatMaxPadding=*/6);
    APFloat back(value.getSemantics());
    auto status = back.convertFromString(text, APFloat::rmNearestTiesToEven);
    bool exact = status && back.bitwiseIsEqual(value);
    if (!status)
      llvm::consumeError(status.takeError());
    // 17 digits suffice for every double.
    if (!exact && digits < 17)
      continue;
    std::string result = text.str().lower();
    if (!text.str().contains('.') && !text.str().contains('E'))
      result += ".0";
    return result;
  }
}

static Expression floatLiteral(APFloat value) {
  bool isDouble = &value.getSemantics() == &APFloat::IEEEdouble();
  bool isSingle = &value.getSemantics() == &APFloat::IEEEsingle();
  if (!isDouble && !isSingle) {
    // 16-bit storage types have no literals.
    bool isHalf = &value.getSemantics() == &APFloat::IEEEhalf();
    bool lost;
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    return Expression((isHalf ? "mpc::toHalf(" : "mpc::toBfloat16(") +
                      floatLiteral(value).text + ")");
  }
  std::string type = isDouble ? "<double>()" : "()";
  if (value.isNaN())
    return Expression("mpc::nan" + type);
  if (value.isInfinity() && !value.isNegative())
    return Expression("mpc::infinity" + type);
  if (value.isInfinity())
    return Expression("-mpc::infinity" + type, Precedence::Unary);
  return Expression(decimal(value) + (isDouble ? "" : "f"),
                    value.isNegative() ? Precedence::Unary
                                       : Precedence::Primary);
}

static Expression integerLiteral(APInt value, unsigned width, bool isBool) {
  if (isBool)
    return Expression(value.isZero() ? "false" : "true");
  std::string suffix = width == 64 ? "ll" : "";
  Precedence precedence =
      value.isNegative() ? Precedence::Unary : Precedence::Primary;
  // The smallest number has no literal: its magnitude does not fit.
  if (value.isMinSignedValue() && width >= 32)
    return Expression("(" + llvm::toString(value + 1, 10, true) + suffix +
                      " - 1)");
  return Expression(llvm::toString(value, 10, /*Signed=*/true) + suffix,
                    precedence);
}

Expression KernelPrinter::literal(Attribute value, Type type, Operation *op) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return floatLiteral(number.getValue());
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    if (type.isIndex()) {
      bool wide = index64 && !llvm::isInt<32>(number.getInt());
      if (!index64 && !llvm::isInt<32>(number.getInt()))
        fail(op, "has an index beyond 32 bits in a kernel without mpc.index64");
      return integerLiteral(APInt(64, number.getInt(), true), wide ? 64 : 32,
                            false);
    }
    return integerLiteral(number.getValue(), type.getIntOrFloatBitWidth(),
                          type.isInteger(1));
  }
  if (auto elements = dyn_cast<DenseElementsAttr>(value)) {
    Type element = elements.getElementType();
    auto one = [&](Attribute attribute) {
      return literal(attribute, element, op);
    };
    if (elements.isSplat()) {
      Expression lane = one(elements.getSplatValue<Attribute>());
      lane.splat = true;
      return lane;
    }
    std::string text;
    for (Attribute attribute : elements.getValues<Attribute>())
      text += (text.empty() ? "" : ", ") + one(attribute).text;
    return Expression(typeName(type, op) + "{" + text + "}");
  }
  fail(op, "has a constant that cannot be printed");
  return Expression("0");
}
