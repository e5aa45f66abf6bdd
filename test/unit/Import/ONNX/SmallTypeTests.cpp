//===- SmallTypeTests.cpp - floats of 8 and 4 bits, integers of 4 and 2 ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each number at which rounding steps from a code to the next, and its two
// neighbours, against APFloat.
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "NarrowStorageType.h"

#include "mpc/Reference/Interpreter.h"

#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mpc;
using namespace mpc::testing;
using llvm::APFloat;
using llvm::APInt;

namespace {

struct Case {
  const char *name;
  int32_t dataType;
  const llvm::fltSemantics *semantics;
};

class SmallFloat : public ::testing::TestWithParam<Case> {
protected:
  const llvm::fltSemantics &semantics() const { return *GetParam().semantics; }
  int bits() const { return onnx::smallTypeOf(GetParam().dataType)->bits; }
  double decode(unsigned code) const {
    APFloat number(semantics(), APInt(unsigned(bits()), code));
    bool loses;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  /// Every finite number, the midpoint to the next number, and the f32
  /// neighbours of both.
  std::vector<float> numbers() const {
    std::vector<float> list = {0.0f, -0.0f, 1e-30f, 1e6f, -1e6f, 3e38f};
    for (unsigned code = 0; code + 1 < 1u << bits(); ++code) {
      double low = decode(code), high = decode(code + 1);
      if (!std::isfinite(low))
        continue;
      std::vector<double> places = {low};
      if (std::isfinite(high) && (low < 0) == (high < 0))
        places.push_back(low + (high - low) / 2);
      else
        places.push_back(low * 33 / 32);
      for (double place : places)
        for (float around :
             {std::nextafter(float(place), -INFINITY), float(place),
              std::nextafter(float(place), INFINITY)})
          list.push_back(around);
    }
    return list;
  }

  Import import;
};

/// y = Cast(x) of `count` elements.
ModelBuilder castModel(int64_t count, int32_t from, int32_t to,
                       bool saturate = true) {
  ModelBuilder b(25);
  b.input("x", {count}, from);
  b.output("y", {count}, to);
  mpc_onnx::NodeProto &node = b.node("Cast", {"x"}, {"y"});
  ModelBuilder::intAttr(node, "to", to);
  ModelBuilder::intAttr(node, "saturate", saturate);
  return b;
}

std::string nameOfCase(const ::testing::TestParamInfo<Case> &info) {
  return info.param.name;
}

} // namespace

TEST_P(SmallFloat, RoundsAsApFloat) {
  std::vector<float> x = numbers();
  ASSERT_TRUE(import.run(castModel(int64_t(x.size()), onnx::kFloat,
                                   GetParam().dataType, /*saturate=*/false)))
      << import.firstError();
  reference::Tensor argument(
      mlir::cast<mlir::RankedTensorType>(import.main().getArgumentTypes()[0]));
  llvm::copy(x, argument.floats().begin());
  auto results = reference::interpret(import.main(), argument);
  ASSERT_TRUE(mlir::succeeded(results));
  for (size_t i = 0; i < x.size(); ++i) {
    APFloat expected(x[i]);
    bool loses;
    expected.convert(semantics(), APFloat::rmNearestTiesToEven, &loses);
    double wanted =
        expected.isNaN()
            ? NAN
            : decode(unsigned(expected.bitcastToAPInt().getZExtValue()));
    double given = decode(unsigned(results->front().ints()[i]));
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(given)) << x[i] << " gives " << given;
    else
      EXPECT_TRUE(wanted == given &&
                  std::signbit(wanted) == std::signbit(given))
          << x[i] << " gives " << given << ", expected " << wanted;
  }
}

TEST_P(SmallFloat, ReadsEveryCode) {
  int64_t count = int64_t(1) << bits();
  ASSERT_TRUE(import.run(castModel(count, GetParam().dataType, onnx::kFloat)))
      << import.firstError();
  reference::Tensor argument(
      mlir::cast<mlir::RankedTensorType>(import.main().getArgumentTypes()[0]));
  for (int64_t code = 0; code < count; ++code)
    argument.ints()[size_t(code)] = code;
  auto results = reference::interpret(import.main(), argument);
  ASSERT_TRUE(mlir::succeeded(results));
  for (int64_t code = 0; code < count; ++code) {
    double wanted = decode(unsigned(code));
    double given = results->front().floats()[size_t(code)];
    EXPECT_TRUE(std::isnan(wanted) ? std::isnan(given) : wanted == given)
        << "code " << code << " gives " << given << ", expected " << wanted;
  }
}

TEST_P(SmallFloat, SaturatesWhereAsked) {
  for (float x : {1e30f, -1e30f, INFINITY, -INFINITY}) {
    Import own;
    ASSERT_TRUE(own.run(castModel(1, onnx::kFloat, GetParam().dataType)))
        << own.firstError();
    reference::Tensor argument(
        mlir::cast<mlir::RankedTensorType>(own.main().getArgumentTypes()[0]));
    argument.floats()[0] = x;
    auto results = reference::interpret(own.main(), argument);
    ASSERT_TRUE(mlir::succeeded(results));
    bool loses;
    APFloat largest = APFloat::getLargest(semantics(), x < 0);
    largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                    &loses);
    EXPECT_EQ(decode(unsigned(results->front().ints()[0])),
              largest.convertToDouble());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, SmallFloat,
    ::testing::Values(
        Case{"E4M3FN", onnx::kFloat8E4M3FN, &APFloat::Float8E4M3FN()},
        Case{"E4M3FNUZ", onnx::kFloat8E4M3FNUZ, &APFloat::Float8E4M3FNUZ()},
        Case{"E5M2", onnx::kFloat8E5M2, &APFloat::Float8E5M2()},
        Case{"E5M2FNUZ", onnx::kFloat8E5M2FNUZ, &APFloat::Float8E5M2FNUZ()},
        Case{"E2M1", onnx::kFloat4E2M1, &APFloat::Float4E2M1FN()}),
    nameOfCase);

// Five 4-bit elements take three bytes, the last of which is half used; the
// transposed tensor keeps its type up to the cast.
TEST(SmallInteger, IsUnpackedAndMoved) {
  ModelBuilder b(21);
  mpc_onnx::TensorProto &w = *b.graph().add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::kInt4);
  w.add_dims(1);
  w.add_dims(5);
  w.set_raw_data(std::string("\x8f\x10\x07", 3));
  b.node("Transpose", {"w"}, {"t"});
  b.output("y", {5, 1}, onnx::kInt32);
  ModelBuilder::intAttr(b.node("Cast", {"t"}, {"y"}), "to", onnx::kInt32);
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  auto results = reference::interpret(import.main(), {});
  ASSERT_TRUE(mlir::succeeded(results));
  EXPECT_EQ(results->front().ints().vec(),
            (std::vector<int64_t>{-1, -8, 0, 1, 7}));
}

TEST(SmallInteger, IsComputedWithInNoOp) {
  ModelBuilder b(21);
  b.input("x", {2}, onnx::kUint4);
  b.output("y");
  b.node("Relu", {"x"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_EQ(
      import.firstError(),
      "Relu: mpc does not compute in UINT4; insert a Cast or DequantizeLinear "
      "before the op (node 'Relu_node')");
}

// A result of another type than declared, though both travel in the same bytes.
TEST(SmallInteger, IsNoByte) {
  ModelBuilder b(21);
  b.input("x", {2}, onnx::kUint4);
  b.output("y", {2}, onnx::kUint8);
  b.node("Identity", {"x"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_EQ(import.firstError(),
            "value 'y' is declared with elements of UINT8, "
            "but is of UINT4 (node 'Identity_node')");
}
