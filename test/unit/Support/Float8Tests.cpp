//===- Float8Tests.cpp - tests of 8-bit floats ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Float8.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"

#include "gtest/gtest.h"

#include <random>

using namespace mpc;
using llvm::APFloat;
using llvm::APInt;

namespace {

/// LLVM has the type as well.
double numberOf(unsigned code) {
  APFloat number(APFloat::Float8E4M3FN(), APInt(8, code));
  bool loses = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

TEST(Float8Test, CodesAreThoseOfTheType) {
  for (unsigned code = 0; code < 256; ++code) {
    double number = decodeFloat8(code);
    if ((code & kNanFloat8) == kNanFloat8) {
      EXPECT_TRUE(std::isnan(number));
      EXPECT_EQ(encodeFloat8(std::copysign(number, code & 0x80 ? -1 : 1)),
                code);
      continue;
    }
    EXPECT_EQ(number, numberOf(code)) << code;
    EXPECT_EQ(std::signbit(number), code >= 0x80);
    EXPECT_EQ(encodeFloat8(number), code);
  }
}

TEST(Float8Test, RoundsToNearestEvenAndSaturates) {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> exponent(-13, 10);
  auto expectNearest = [](double value) {
    APFloat wanted(value);
    bool loses = false;
    wanted.convert(APFloat::Float8E4M3FN(), APFloat::rmNearestTiesToEven,
                   &loses);
    unsigned code = wanted.bitcastToAPInt().getZExtValue();
    if (std::abs(value) > kLargestFloat8)
      code = value < 0 ? 0xfe : 0x7e;
    EXPECT_EQ(encodeFloat8(value), code) << value;
  };
  for (int i = 0; i < 20000; ++i)
    expectNearest(normal(engine) * std::exp2(exponent(engine)));
  // Halves between neighbours, and what is next to them.
  for (unsigned code = 0; code < 0x7e; ++code) {
    double half = (decodeFloat8(code) + decodeFloat8(code + 1)) / 2;
    for (double value : {half, std::nextafter(half, 0.0),
                         std::nextafter(half, kLargestFloat8)})
      for (double sign : {1.0, -1.0})
        expectNearest(sign * value);
  }
  EXPECT_EQ(encodeFloat8(std::numeric_limits<double>::infinity()), 0x7e);
  EXPECT_EQ(encodeFloat8(-1e300), 0xfe);
}

} // namespace
