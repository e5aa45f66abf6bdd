//===- TensorTests.cpp - storage and rounding -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <utility>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;
using llvm::APFloat;

namespace {

using TensorTest = ReferenceTest;

double roundByApfloat(double value, const llvm::fltSemantics &semantics) {
  APFloat number(value);
  bool losesInfo;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return number.convertToDouble();
}

uint64_t bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Doubles around every interesting magnitude: normal, subnormal, halfway points
// and the overflow boundary of each format.
TEST_F(TensorTest, RoundToAgreesWithApfloat) {
  std::vector<double> values = {
      0.0,       -0.0,         kInf,       -kInf,    65504,     65519.999,
      65520,     65536,        0x1p-24,    0x1p-25,  0x1.8p-25, 0x1.000001p-25,
      0x1p-133,  0x1p-134,     0x1.8p-134, 0x1p-149, 0x1p-150,  3.3895e38,
      3.3961e38, 3.4028236e38, 1e300,      1e-300};
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-160, 140), sign(0, 1),
      chop(0, 45);
  for (int i = 0; i < 200000; ++i) {
    double value = std::ldexp(mantissa(generator), exponent(generator));
    // Clearing low bits makes halfway cases frequent.
    uint64_t bits = bitsOf(value) & (~uint64_t(0) << chop(generator));
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(sign(generator) ? -value : value);
  }
  Builder builder(&context);
  for (auto [type, semantics] :
       {std::pair<Type, const llvm::fltSemantics *>{builder.getF16Type(),
                                                    &APFloat::IEEEhalf()},
        {builder.getBF16Type(), &APFloat::BFloat()},
        {builder.getF32Type(), &APFloat::IEEEsingle()},
        {builder.getF64Type(), &APFloat::IEEEdouble()}})
    for (double value : values)
      ASSERT_EQ(bitsOf(roundTo(value, type)),
                bitsOf(roundByApfloat(value, *semantics)))
          << value << " to width " << type.getIntOrFloatBitWidth();
  EXPECT_TRUE(std::isnan(roundTo(kNan, builder.getF16Type())));
}

TEST_F(TensorTest, Tf32RoundsHalvesAwayFromZero) {
  EXPECT_EQ(roundToTf32(1 + 0x1p-11), 1 + 0x1p-10);
  EXPECT_EQ(roundToTf32(-1 - 0x1p-11), -1 - 0x1p-10);
  EXPECT_EQ(roundToTf32(1 + 0x1.ffcp-12), 1.0);
  EXPECT_EQ(roundToTf32(kInf), kInf);
  EXPECT_TRUE(std::isnan(roundToTf32(kNan)));
}

TEST_F(TensorTest, WrapsIntegersToTheirWidth) {
  Builder builder(&context);
  EXPECT_EQ(wrapTo(200, builder.getIntegerType(8)), -56);
  EXPECT_EQ(wrapTo(-1, builder.getIntegerType(8, /*isSigned=*/false)), 255);
  EXPECT_EQ(wrapTo(3, builder.getI1Type()), 1);
  EXPECT_EQ(wrapTo(int64_t(1) << 31, builder.getI32Type()),
            -(int64_t(1) << 31));
  EXPECT_EQ(wrapTo(-5, builder.getI64Type()), -5);
}

// All 65536 patterns of both 16-bit formats survive reading and writing.
TEST_F(TensorTest, CopiesShareElementsUntilOneIsWritten) {
  Tensor first = floats("tensor<2xf32>", {1, 2});
  const Tensor second = first;
  EXPECT_EQ(second.floats().data(), std::as_const(first).floats().data());
  first.floats()[0] = 3;
  EXPECT_EQ(second.floats()[0], 1);
  Tensor equal = floats("tensor<2xf32>", {1, 2}),
         other = floats("tensor<2xf32>", {0, 2}),
         negative = floats("tensor<2xf32>", {-0.0, 2});
  equal.shareIfEqual(second);
  EXPECT_EQ(std::as_const(equal).floats().data(), second.floats().data());
  negative.shareIfEqual(other);
  EXPECT_TRUE(std::signbit(negative.floats()[0]));
}

TEST_F(TensorTest, BytesOf16BitFloatsRoundTrip) {
  std::vector<uint16_t> patterns(65536);
  for (int i = 0; i < 65536; ++i)
    patterns[i] = i;
  for (StringRef text : {"tensor<65536xf16>", "tensor<65536xbf16>"}) {
    Tensor tensor = Tensor::fromBytes(type(text), patterns.data());
    std::vector<uint16_t> written(65536);
    tensor.toBytes(written.data());
    const llvm::fltSemantics &semantics =
        cast<FloatType>(tensor.getElementType()).getFloatSemantics();
    for (int i = 0; i < 65536; ++i) {
      APFloat exact(semantics, llvm::APInt(16, i));
      if (exact.isNaN()) {
        EXPECT_TRUE(std::isnan(tensor.floats()[i]));
        EXPECT_TRUE(APFloat(semantics, llvm::APInt(16, written[i])).isNaN());
        continue;
      }
      bool losesInfo;
      exact.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
      ASSERT_EQ(bitsOf(tensor.floats()[i]), bitsOf(exact.convertToDouble()))
          << i;
      ASSERT_EQ(written[i], i);
    }
  }
}

TEST_F(TensorTest, BytesOfOtherTypesRoundTrip) {
  auto check = [&](StringRef text, auto values) {
    Tensor tensor = Tensor::fromBytes(type(text), values.data());
    auto written = values;
    std::fill(written.begin(), written.end(), 0);
    tensor.toBytes(written.data());
    EXPECT_EQ(written, values) << text.str();
    return tensor;
  };
  check("tensor<2xf32>", std::vector<float>{1.5f, -0x1p-149f});
  check("tensor<2xf64>", std::vector<double>{1e300, -0.1});
  check("tensor<3xi8>", std::vector<int8_t>{-128, 0, 127});
  check("tensor<2xui8>", std::vector<uint8_t>{255, 1});
  check("tensor<2xi16>", std::vector<int16_t>{-32768, 5});
  check("tensor<2xui16>", std::vector<uint16_t>{65535, 5});
  check("tensor<2xi32>", std::vector<int32_t>{-7, 1 << 30});
  check("tensor<1xui32>", std::vector<uint32_t>{0xffffffffu});
  check("tensor<1xui64>", std::vector<uint64_t>{~uint64_t(0)});
  Tensor booleans = check("tensor<2xi1>", std::vector<uint8_t>{1, 0});
  EXPECT_EQ(booleans.ints()[0], 1);
  Tensor unsignedBytes = check("tensor<1xui8>", std::vector<uint8_t>{200});
  EXPECT_EQ(unsignedBytes.ints()[0], 200);
}

TEST_F(TensorTest, ReadsDenseSplatAndResourceConstants) {
  auto dense = cast<ElementsAttr>(
      mlir::parseAttribute("dense<[1.5, -2.0]> : tensor<2xbf16>", &context));
  FailureOr<Tensor> tensor = Tensor::fromAttr(dense);
  ASSERT_TRUE(succeeded(tensor));
  expectNear(*tensor, {1.5, -2.0}, 0);
  EXPECT_EQ(tensor->toAttr(), dense);
  auto splat = cast<ElementsAttr>(
      mlir::parseAttribute("dense<true> : tensor<3xi1>", &context));
  tensor = Tensor::fromAttr(splat);
  ASSERT_TRUE(succeeded(tensor));
  EXPECT_EQ(ArrayRef<int64_t>(tensor->ints()), ArrayRef<int64_t>({1, 1, 1}));
  EXPECT_EQ(tensor->toAttr(), splat);

  // Large enough to become a resource.
  Tensor large = random("tensor<40x50xf32>");
  FailureOr<Tensor> again = Tensor::fromAttr(large.toAttr("w"));
  ASSERT_TRUE(succeeded(again));
  expectNear(*again, large.floats(), 0);
}

} // namespace
