//===- ElementwiseTests.cpp - unary, binary, cast -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using ElementwiseTest = ReferenceTest;

// Values from tables (Abramowitz and Stegun), not from the functions under
// test.
TEST_F(ElementwiseTest, FunctionsHaveTabulatedValues) {
  struct Case {
    const char *op;
    double input, expected;
  };
  const Case cases[] = {
      {"abs", -2, 2},
      {"neg", 3, -3},
      {"sign", -7, -1},
      {"floor", -1.5, -2},
      {"ceil", -1.5, -1},
      {"round", 2.5, 2},
      {"exp", 1, 2.718281828459045},
      {"expm1", 1e-10, 1.00000000005e-10},
      {"log", 10, 2.302585092994046},
      {"log1p", 1e-10, 9.9999999995e-11},
      {"sqrt", 2, 1.4142135623730951},
      {"rsqrt", 4, 0.5},
      {"reciprocal", 8, 0.125},
      {"sin", 1, 0.8414709848078965},
      {"cos", 1, 0.5403023058681398},
      {"tan", 1, 1.5574077246549023},
      {"asin", 0.5, 0.5235987755982989},
      {"acos", 0.5, 1.0471975511965979},
      {"atan", 1, 0.7853981633974483},
      {"sinh", 1, 1.1752011936438014},
      {"cosh", 1, 1.5430806348152437},
      {"asinh", 1, 0.881373587019543},
      {"acosh", 2, 1.3169578969248166},
      {"atanh", 0.5, 0.5493061443340548},
      {"tanh", 1, 0.7615941559557649},
      {"sigmoid", 1, 0.7310585786300049},
      {"sigmoid", -800, 0},
      {"erf", 0.5, 0.5204998778130465},
      {"relu", -1, 0},
      {"silu", 1, 0.7310585786300049},
      {"softplus", 0, 0.6931471805599453},
      {"softplus", 1000, 1000},
      {"gelu", 1, 0.8413447460685429},
      {"gelu", -1, -0.15865525393145707},
  };
  for (const Case &test : cases)
    expectFloats((Twine("mpc.") + test.op + " %0 : tensor<1xf32>").str(),
                 {floats("tensor<1xf32>", {test.input})}, "tensor<1xf32>",
                 {test.expected},
                 /*tolerance=*/1e-14);
  expectFloats("mpc.gelu %0 form(tanh) : tensor<1xf64>",
               {floats("tensor<1xf64>", {1})}, "tensor<1xf64>",
               {0.8411919906082768}, 1e-14);
  expectFloats("mpc.leaky_relu %0 alpha(0.1) : tensor<2xf32>",
               {floats("tensor<2xf32>", {-1, 2})}, "tensor<2xf32>", {-0.1, 2});
  expectFloats("mpc.elu %0 alpha(2.0) : tensor<2xf32>",
               {floats("tensor<2xf32>", {-1, 2})}, "tensor<2xf32>",
               {2 * (0.36787944117144233 - 1), 2}, 1e-15);
}

TEST_F(ElementwiseTest, SpecialValuesPassThrough) {
  Tensor special = floats("tensor<4xf32>", {kNan, kInf, -kInf, -0.0});
  expectFloats("mpc.relu %0 : tensor<4xf32>", {special}, "tensor<4xf32>",
               {kNan, kInf, 0, 0});
  expectFloats("mpc.sign %0 : tensor<4xf32>", {special}, "tensor<4xf32>",
               {kNan, 1, -1, 0});
  expectInts("mpc.is_nan %0 : tensor<4xf32> -> tensor<4xi1>", {special},
             "tensor<4xi1>", {1, 0, 0, 0});
  expectInts("mpc.is_inf %0 {positive = false} : tensor<4xf32> -> tensor<4xi1>",
             {special}, "tensor<4xi1>", {0, 0, 1, 0});
  Tensor ones = floats("tensor<4xf32>", {1, 1, 1, 1});
  expectFloats(
      "mpc.max %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
      {special, ones}, "tensor<4xf32>", {kNan, kInf, 1, 1});
  expectFloats(
      "mpc.min %1, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
      {special, ones}, "tensor<4xf32>", {kNan, 1, -kInf, -0.0});
}

TEST_F(ElementwiseTest, BroadcastsAsNumpyDoes) {
  Tensor column = floats("tensor<2x1xf32>", {10, 20}),
         row = floats("tensor<3xf32>", {1, 2, 3});
  expectFloats(
      "mpc.add %0, %1 : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>",
      {column, row}, "tensor<2x3xf32>", {11, 12, 13, 21, 22, 23});
  Tensor scalar = floats("tensor<f32>", {2});
  expectFloats("mpc.sub %1, %0 : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
               {scalar, row}, "tensor<3xf32>", {-1, 0, 1});
  Tensor condition = ints("tensor<2x1xi1>", {1, 0});
  expectFloats(
      "mpc.select %0, %1, %2 : (tensor<2x1xi1>, tensor<3xf32>, tensor<f32>) -> "
      "tensor<2x3xf32>",
      {condition, row, scalar}, "tensor<2x3xf32>", {1, 2, 3, 2, 2, 2});
  expectFloats("mpc.clamp %0, %1, %2 : (tensor<3xf32>, tensor<f32>, "
               "tensor<f32>) -> tensor<3xf32>",
               {row, scalar, floats("tensor<f32>", {2.5})}, "tensor<3xf32>",
               {2, 2, 2.5});
  Tensor empty = floats("tensor<0x3xf32>", {});
  expectFloats(
      "mpc.mul %0, %1 : (tensor<0x3xf32>, tensor<3xf32>) -> tensor<0x3xf32>",
      {empty, row}, "tensor<0x3xf32>", {});
}

TEST_F(ElementwiseTest, FloatArithmetic) {
  Tensor a = floats("tensor<3xf32>", {7, -7, 2}),
         b = floats("tensor<3xf32>", {2, 2, -3});
  const char *types =
      " %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>";
  expectFloats(std::string("mpc.mul") + types, {a, b}, "tensor<3xf32>",
               {14, -14, -6});
  expectFloats(std::string("mpc.div") + types, {a, b}, "tensor<3xf32>",
               {3.5, -3.5, -2.0 / 3});
  expectFloats(std::string("mpc.pow") + types, {a, b}, "tensor<3xf32>",
               {49, 49, 0.125});
  expectFloats(std::string("mpc.rem") + types, {a, b}, "tensor<3xf32>",
               {1, -1, 2});
}

TEST_F(ElementwiseTest, IntegerArithmeticWrapsAndNeverTraps) {
  Tensor a = ints("tensor<4xi8>", {100, -128, 7, -7}),
         b = ints("tensor<4xi8>", {100, -1, 0, 2});
  const char *types = " %0, %1 : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>";
  expectInts(std::string("mpc.add") + types, {a, b}, "tensor<4xi8>",
             {-56, 127, 7, -5});
  expectInts(std::string("mpc.sub") + types, {a, b}, "tensor<4xi8>",
             {0, -127, 7, -9});
  expectInts(std::string("mpc.mul") + types, {a, b}, "tensor<4xi8>",
             {16, -128, 0, -14});
  expectInts(std::string("mpc.div") + types, {a, b}, "tensor<4xi8>",
             {1, -128, 0, -3});
  expectInts(std::string("mpc.rem") + types, {a, b}, "tensor<4xi8>",
             {0, 0, 0, -1});
  expectInts(std::string("mpc.pow") + types, {a, b}, "tensor<4xi8>",
             {0, 0, 1, 49});
  int64_t lowest = std::numeric_limits<int64_t>::min();
  expectInts("mpc.div %0, %1 : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>",
             {ints("tensor<1xi64>", {lowest}), ints("tensor<1xi64>", {-1})},
             "tensor<1xi64>", {lowest});
  expectInts("mpc.neg %0 : tensor<1xi8>", {ints("tensor<1xi8>", {-128})},
             "tensor<1xi8>", {-128});
  expectInts("mpc.not %0 : tensor<2xi1>", {ints("tensor<2xi1>", {1, 0})},
             "tensor<2xi1>", {0, 1});
  expectInts("mpc.not %0 : tensor<1xui8>", {ints("tensor<1xui8>", {1})},
             "tensor<1xui8>", {254});
}

TEST_F(ElementwiseTest, UnsignedIntegersCompareAndDivideUnsigned) {
  Tensor a = ints("tensor<2xui64>", {-1, 4}),
         b = ints("tensor<2xui64>", {2, 8});
  expectInts("mpc.compare gt %0, %1 : (tensor<2xui64>, tensor<2xui64>) -> "
             "tensor<2xi1>",
             {a, b}, "tensor<2xi1>", {1, 0});
  expectInts(
      "mpc.div %0, %1 : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>",
      {a, b}, "tensor<2xui64>", {std::numeric_limits<int64_t>::max(), 0});
  expectInts(
      "mpc.max %0, %1 : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>",
      {a, b}, "tensor<2xui64>", {-1, 8});
}

TEST_F(ElementwiseTest, ShiftsEndAtTheWidth) {
  Tensor a = ints("tensor<3xi8>", {-1, 1, 1}),
         b = ints("tensor<3xi8>", {1, 7, 8});
  const char *types = " %0, %1 : (tensor<3xi8>, tensor<3xi8>) -> tensor<3xi8>";
  expectInts(std::string("mpc.shift_left") + types, {a, b}, "tensor<3xi8>",
             {-2, -128, 0});
  expectInts(std::string("mpc.shift_right") + types, {a, b}, "tensor<3xi8>",
             {127, 0, 0});
}

TEST_F(ElementwiseTest, LogicOnIntegersAndBooleans) {
  Tensor a = ints("tensor<2xi32>", {12, -1}),
         b = ints("tensor<2xi32>", {10, 5});
  const char *types =
      " %0, %1 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>";
  expectInts(std::string("mpc.and") + types, {a, b}, "tensor<2xi32>", {8, 5});
  expectInts(std::string("mpc.or") + types, {a, b}, "tensor<2xi32>", {14, -1});
  expectInts(std::string("mpc.xor") + types, {a, b}, "tensor<2xi32>", {6, -6});
}

TEST_F(ElementwiseTest, EveryPredicateButNeIsFalseOnNan) {
  Tensor a = floats("tensor<3xf32>", {1, 2, kNan}),
         b = floats("tensor<3xf32>", {2, 2, kNan});
  auto check = [&](std::string predicate, ArrayRef<int64_t> expected) {
    expectInts("mpc.compare " + predicate +
                   " %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>",
               {a, b}, "tensor<3xi1>", expected);
  };
  check("eq", {0, 1, 0});
  check("ne", {1, 0, 1});
  check("lt", {1, 0, 0});
  check("le", {1, 1, 0});
  check("gt", {0, 0, 0});
  check("ge", {0, 1, 0});
}

TEST_F(ElementwiseTest, CastsSaturateTruncateAndWrap) {
  Tensor values = floats("tensor<5xf32>", {1.9, -1.9, 300, -1e30, kNan});
  expectInts("mpc.cast %0 : tensor<5xf32> to tensor<5xi8>", {values},
             "tensor<5xi8>", {1, -1, 127, -128, 0});
  expectInts("mpc.cast %0 : tensor<5xf32> to tensor<5xui8>", {values},
             "tensor<5xui8>", {1, 0, 255, 0, 0});
  expectInts("mpc.cast %0 : tensor<5xf32> to tensor<5xi1>", {values},
             "tensor<5xi1>", {1, 1, 1, 1, 1});
  expectInts("mpc.cast %0 : tensor<2xf64> to tensor<2xui64>",
             {floats("tensor<2xf64>", {0x1p63, 1e30})}, "tensor<2xui64>",
             {std::numeric_limits<int64_t>::min(), -1});
  expectInts("mpc.cast %0 : tensor<2xi32> to tensor<2xi8>",
             {ints("tensor<2xi32>", {300, -129})}, "tensor<2xi8>", {44, 127});
  expectInts("mpc.cast %0 : tensor<2xi32> to tensor<2xi1>",
             {ints("tensor<2xi32>", {256, 0})}, "tensor<2xi1>", {1, 0});
  expectFloats("mpc.cast %0 : tensor<1xui64> to tensor<1xf32>",
               {ints("tensor<1xui64>", {-1})}, "tensor<1xf32>", {0x1p64});
}

TEST_F(ElementwiseTest, CastsRoundOnlyInDeclaredMode) {
  Tensor value = floats("tensor<2xf32>", {1 + 0x1p-9, 70000});
  const char *op = "mpc.cast %0 : tensor<2xf32> to tensor<2xf16>";
  expectFloats(op, {value}, "tensor<2xf16>", {1 + 0x1p-9, 70000});
  expectFloats(op, {value}, "tensor<2xf16>", {1 + 0x1p-9, kInf}, 0,
               Rounding::Declared);
  expectFloats("mpc.cast %0 : tensor<2xf32> to tensor<2xbf16>", {value},
               "tensor<2xbf16>", {1, 70144}, 0, Rounding::Declared);
}

TEST_F(ElementwiseTest, DeclaredModeRoundsEachResult) {
  Tensor a = floats("tensor<1xbf16>", {1}),
         b = floats("tensor<1xbf16>", {0x1p-8});
  const char *op =
      "mpc.add %0, %1 : (tensor<1xbf16>, tensor<1xbf16>) -> tensor<1xbf16>";
  expectFloats(op, {a, b}, "tensor<1xbf16>", {1 + 0x1p-8});
  expectFloats(op, {a, b}, "tensor<1xbf16>", {1}, 0, Rounding::Declared);
}

} // namespace
