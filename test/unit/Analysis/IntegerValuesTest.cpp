//===- IntegerValuesTest.cpp - integer-valued floats ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/IntegerValuedFloats.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

/// One parsed function whose values are looked up by the name of their op's
/// location.
class IntegerValuesTest : public ::testing::Test {
protected:
  IntegerValuesTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  func::FuncOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return *module->getOps<func::FuncOp>().begin();
  }

  Value find(StringRef name) {
    Value found;
    module->walk([&](Operation *op) {
      if (llvm::is_contained(opNames(op), name))
        found = op->getResult(0);
    });
    EXPECT_TRUE(found) << name.str();
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(IntegerValuesTest, CountsFromIntegersAreCarriers) {
  func::FuncOp func = parse(R"(func.func @f(%n: tensor<4xi64>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %half = mpc.constant dense<0.5> : tensor<f32>
    %0 = mpc.cast %n : tensor<4xi64> to tensor<4xf32> loc("frames")
    %1 = mpc.add %0, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("next")
    %2 = mpc.mul %1, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("halves")
    %3 = mpc.floor %2 : tensor<4xf32> loc("floor")
    %4 = mpc.reshape %3 : tensor<4xf32> to tensor<2x2xf32> loc("moved")
    %5 = mpc.sin %4 : tensor<2x2xf32> loc("sine")
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.contains(find("frames")));
  EXPECT_TRUE(integers.contains(find("next")));
  EXPECT_FALSE(integers.contains(find("halves"))) << "no integer";
  EXPECT_TRUE(integers.contains(find("floor")));
  EXPECT_TRUE(integers.contains(find("moved")));
  EXPECT_FALSE(integers.contains(find("sine")));
}

TEST_F(IntegerValuesTest, PositionsCountFromWhere16BitsEnd) {
  func::FuncOp func = parse(R"(func.func @f() {
    %0 = mpc.iota axis(0) : tensor<257xf32> loc("exact")
    %1 = mpc.iota axis(0) : tensor<258xf32> loc("long")
    %2 = mpc.iota axis(1) : tensor<1024x8xf32> loc("other axis")
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_FALSE(integers.contains(find("exact"))) << "0 to 256";
  EXPECT_TRUE(integers.contains(find("long")));
  EXPECT_EQ(integers.getMagnitude(find("long")), 257);
  EXPECT_FALSE(integers.contains(find("other axis")));
}

TEST_F(IntegerValuesTest, PositionsWithoutGradientStayPositions) {
  func::FuncOp func = parse(R"(func.func @f() {
    %0 = mpc.iota axis(0) : tensor<1024xf32> loc("positions")
    %1 = mpc.stop_gradient %0 : tensor<1024xf32> loc("stopped")
    return
  })");
  EXPECT_TRUE(IntegerValuedFloats(func).contains(find("stopped")));
}

TEST_F(IntegerValuesTest, FoldedPositionsCount) {
  func::FuncOp func = parse(R"(func.func @f() {
    %0 = mpc.constant dense<[100.0, 200.0, 300.0]> : tensor<3xf32> loc("positions")
    %1 = mpc.constant dense<[100.0, 300.0, 200.0]> : tensor<3xf32> loc("table")
    %2 = mpc.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> loc("near")
    %3 = mpc.constant dense<[100.5, 200.5, 300.5]> : tensor<3xf32> loc("halves")
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.contains(find("positions")));
  EXPECT_FALSE(integers.contains(find("table"))) << "any numbers";
  EXPECT_FALSE(integers.contains(find("near"))) << "exact";
  EXPECT_FALSE(integers.contains(find("halves"))) << "no integers";
}

TEST_F(IntegerValuesTest, ArgumentsReadAsIndicesAreCarriers) {
  func::FuncOp func = parse(
      R"(func.func @f(%ids: tensor<4xf32>, %both: tensor<4xf32>, %table: tensor<9x2xf32>) {
    %0 = mpc.reshape %ids : tensor<4xf32> to tensor<4xf32> loc("moved")
    %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xi64>
    %2 = mpc.gather %table, %1 axis(0) : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32> loc("rows")
    %3 = mpc.cast %both : tensor<4xf32> to tensor<4xi64>
    %4 = mpc.tanh %both : tensor<4xf32>
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.contains(func.getArgument(0)));
  EXPECT_TRUE(integers.contains(find("moved")));
  EXPECT_FALSE(integers.contains(func.getArgument(1)))
      << "an activation as well";
  EXPECT_FALSE(integers.contains(func.getArgument(2)));
  EXPECT_FALSE(integers.contains(find("rows")));
}

TEST_F(IntegerValuesTest, IndexArithmeticIsCarried) {
  func::FuncOp func = parse(R"(func.func @f(%x: tensor<8xf32>) {
    %scale = mpc.constant dense<1.7> : tensor<f32>
    %0 = mpc.mul %x, %scale : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32> loc("scaled")
    %1 = mpc.floor %0 : tensor<8xf32> loc("floor")
    %2 = mpc.cast %1 : tensor<8xf32> to tensor<8xi32>
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.contains(func.getArgument(0)));
  EXPECT_TRUE(integers.contains(find("scaled")));
  EXPECT_TRUE(integers.contains(find("floor")));
}

// An index stays integral after a clip at zero or abs, as after max.
TEST_F(IntegerValuesTest, ClippedIndicesAreCarried) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) {
    %0 = mpc.relu %x : tensor<8xf32> loc("clipped")
    %1 = mpc.cast %0 : tensor<8xf32> to tensor<8xi32>
    %2 = mpc.abs %y : tensor<8xf32> loc("distance")
    %3 = mpc.cast %2 : tensor<8xf32> to tensor<8xi32>
    %4 = mpc.relu %z : tensor<8xf32> loc("activation")
    %5 = mpc.cast %4 : tensor<8xf32> to tensor<8xi32>
    %6 = mpc.tanh %4 : tensor<8xf32>
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.contains(func.getArgument(0)));
  EXPECT_TRUE(integers.contains(find("clipped")));
  EXPECT_TRUE(integers.contains(func.getArgument(1)));
  EXPECT_TRUE(integers.contains(find("distance")));
  EXPECT_FALSE(integers.contains(func.getArgument(2)));
  EXPECT_FALSE(integers.contains(find("activation")));
}

TEST_F(IntegerValuesTest, SumsOfTruthValuesAreCounts) {
  func::FuncOp func = parse(R"(func.func @f(%m: tensor<2x300xi1>) {
    %0 = mpc.cast %m : tensor<2x300xi1> to tensor<2x300xf32> loc("mask")
    %1 = mpc.reduce_sum %0 axes([1]) : tensor<2x300xf32> -> tensor<2xf32> loc("length")
    %2 = mpc.reduce_sum %0 axes([0]) : tensor<2x300xf32> -> tensor<300xf32> loc("short")
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_FALSE(integers.contains(find("mask")));
  EXPECT_TRUE(integers.contains(find("length")));
  EXPECT_EQ(integers.getMagnitude(find("length")), 300);
  EXPECT_FALSE(integers.contains(find("short")));
}

// Counts of a mask that the caller passes, or that a select makes; running sums
// of activations are none.
TEST_F(IntegerValuesTest, RunningSumsOfMasksAreCounts) {
  func::FuncOp func = parse(
      R"(func.func @f(%m: tensor<2x300xf32>, %c: tensor<2x300xi1>, %x: tensor<2x300xf32>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %0 = mpc.sub %one, %m : (tensor<f32>, tensor<2x300xf32>) -> tensor<2x300xf32> loc("inverse")
    %1 = mpc.cumsum %0 axis(1) : tensor<2x300xf32> loc("given")
    %2 = mpc.sub %1, %one : (tensor<2x300xf32>, tensor<f32>) -> tensor<2x300xf32> loc("positions")
    %3 = mpc.select %c, %one, %zero : (tensor<2x300xi1>, tensor<f32>, tensor<f32>) -> tensor<2x300xf32> loc("mask")
    %4 = mpc.cumsum %3 axis(1) : tensor<2x300xf32> loc("selected")
    %5 = mpc.cumsum %3 axis(0) : tensor<2x300xf32> loc("short")
    %6 = mpc.tanh %x : tensor<2x300xf32>
    %7 = mpc.cumsum %6 axis(1) : tensor<2x300xf32> loc("activations")
    return
  })");
  IntegerValuedFloats integers(func);
  for (StringRef name : {"given", "positions", "selected"})
    EXPECT_TRUE(integers.contains(find(name))) << name.str();
  for (StringRef name : {"inverse", "mask", "short", "activations"})
    EXPECT_FALSE(integers.contains(find(name))) << name.str();
  EXPECT_FALSE(integers.isIntegral(find("given")))
      << "the mask may be anything";
}

// Three halvings of a length, as in subsampling encoders: the value between two
// roundings is not an integer, and determines the integer after the next one.
TEST_F(IntegerValuesTest, ArithmeticAfterARoundingFeedsIntegers) {
  func::FuncOp func = parse(
      R"(func.func @f(%n: tensor<4xi64>, %share: tensor<4xf32>, %x: tensor<4x8xf32>) {
    %half = mpc.constant dense<0.5> : tensor<f32>
    %total = mpc.constant dense<640.0> : tensor<f32>
    %0 = mpc.cast %n : tensor<4xi64> to tensor<4xf32> loc("frames")
    %1 = mpc.mul %0, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("halves")
    %2 = mpc.add %1, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("shifted")
    %3 = mpc.floor %2 : tensor<4xf32> loc("length")
    %4 = mpc.reshape %3 : tensor<4xf32> to tensor<4x1xf32> loc("column")
    %5 = mpc.div %x, %4 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32> loc("mean")
    %6 = mpc.mul %share, %total : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("part")
    %7 = mpc.round %6 : tensor<4xf32> loc("rounded")
    %8 = mpc.cast %7 : tensor<4xf32> to tensor<4xi32>
    %9 = mpc.tanh %6 : tensor<4xf32> loc("activation")
    return
  })");
  IntegerValuedFloats integers(func);
  for (StringRef name : {"frames", "halves", "shifted", "part", "rounded"})
    EXPECT_TRUE(integers.feedsIntegers(find(name))) << name.str();
  EXPECT_TRUE(integers.feedsIntegers(func.getArgument(1)))
      << "whatever else reads it";
  EXPECT_FALSE(integers.contains(find("halves")));
  for (StringRef name : {"column", "mean", "activation"})
    EXPECT_FALSE(integers.feedsIntegers(find(name))) << name.str();
  EXPECT_FALSE(integers.feedsIntegers(func.getArgument(2)));
}

// The search stops at the result of a layer and skips its operands; an affine
// map of coordinates is arithmetic.
TEST_F(IntegerValuesTest, IntegersAreFollowedBackToLayers) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %a: tensor<2x3xf32>, %b: tensor<2x9xf32>) {
    %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("layer")
    %1 = mpc.sigmoid %0 : tensor<4x2xf32> loc("share")
    %2 = mpc.matmul %1, %a : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32> loc("map")
    %3 = mpc.reduce_max %2 axes([1]) : tensor<4x3xf32> -> tensor<4xf32> loc("largest")
    %4 = mpc.ceil %3 : tensor<4xf32> loc("ceil")
    %5 = mpc.cast %4 : tensor<4xf32> to tensor<4xi64>
    %6 = mpc.matmul %1, %b : (tensor<4x2xf32>, tensor<2x9xf32>) -> tensor<4x9xf32> loc("other")
    return
  })");
  IntegerValuedFloats integers(func);
  for (StringRef name : {"layer", "share", "map", "largest", "ceil"})
    EXPECT_TRUE(integers.feedsIntegers(find(name))) << name.str();
  EXPECT_TRUE(integers.feedsIntegers(func.getArgument(2)));
  EXPECT_FALSE(integers.feedsIntegers(func.getArgument(0)));
  EXPECT_FALSE(integers.feedsIntegers(func.getArgument(3)));
  EXPECT_FALSE(integers.feedsIntegers(find("other")));
}

// A length that is compared with positions counts without a cast; quantised
// activations and truth values count nothing.
TEST_F(IntegerValuesTest, ComparedLengthsFeedIntegers) {
  func::FuncOp func = parse(
      R"(func.func @f(%n: tensor<4x1xf32>, %x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
    %half = mpc.constant dense<0.5> : tensor<f32>
    %p = mpc.iota axis(1) : tensor<4x300xf32>
    %0 = mpc.floor %n : tensor<4x1xf32>
    %1 = mpc.compare lt %p, %0 : (tensor<4x300xf32>, tensor<4x1xf32>) -> tensor<4x300xi1>
    %2 = mpc.round %x : tensor<4x8xf32>
    %3 = mpc.cast %2 : tensor<4x8xf32> to tensor<4x8xi8>
    %4 = mpc.compare lt %y, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %5 = mpc.cast %y : tensor<4x8xf32> to tensor<4x8xi1>
    return
  })");
  IntegerValuedFloats integers(func);
  EXPECT_TRUE(integers.feedsIntegers(func.getArgument(0)));
  EXPECT_FALSE(integers.feedsIntegers(func.getArgument(1)));
  EXPECT_FALSE(integers.feedsIntegers(func.getArgument(2)));
}

// Masks, quantisation, pixels and rounded activations are no counts.
TEST_F(IntegerValuesTest, ActivationsAreNone) {
  func::FuncOp func = parse(
      R"(func.func @f(%ids: tensor<4xi64>, %pixels: tensor<4xui8>, %x: tensor<4x4xf32>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %far = mpc.constant dense<-10000.0> : tensor<f32>
    %lowest = mpc.constant dense<-1.0e9> : tensor<f32> loc("lowest")
    %0 = mpc.cast %ids : tensor<4xi64> to tensor<4xf32> loc("mask")
    %1 = mpc.sub %one, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32> loc("inverse")
    %2 = mpc.mul %1, %far : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("additive")
    %3 = mpc.cast %pixels : tensor<4xui8> to tensor<4xf32> loc("image")
    %4 = mpc.round %x : tensor<4x4xf32> loc("rounded")
    %5 = mpc.matmul %4, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("product")
    %6 = mpc.cast %5 : tensor<4x4xf32> to tensor<4x4xi32>
    %7 = mpc.round %x : tensor<4x4xf32> loc("quantised")
    %8 = mpc.cast %7 : tensor<4x4xf32> to tensor<4x4xi8>
    %9 = mpc.relu %x : tensor<4x4xf32> loc("relu")
    return
  })");
  IntegerValuedFloats integers(func);
  for (StringRef name : {"lowest", "mask", "inverse", "additive", "image",
                         "rounded", "product", "quantised", "relu"})
    EXPECT_FALSE(integers.contains(find(name))) << name.str();
  for (BlockArgument argument : func.getArguments())
    EXPECT_FALSE(integers.contains(argument));
}

TEST_F(IntegerValuesTest, RangesFollowTheGraph) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<4xf32>, %c: tensor<4xi1>) {
    %low = mpc.constant dense<-3.0> : tensor<f32>
    %high = mpc.constant dense<2.0> : tensor<f32>
    %far = mpc.constant dense<-1.0e9> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %0 = mpc.clamp %x, %low, %high : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32> loc("clamp")
    %1 = mpc.mul %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("square")
    %2 = mpc.select %c, %zero, %far : (tensor<4xi1>, tensor<f32>, tensor<f32>) -> tensor<4xf32> loc("mask")
    %3 = mpc.add %2, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("masked")
    %4 = mpc.max %x, %high : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("guard")
    return
  })");
  RangeAnalysis ranges(func);
  auto expect = [&](StringRef name, double low, double high) {
    EXPECT_EQ(ranges.get(find(name)).low, low) << name.str();
    EXPECT_EQ(ranges.get(find(name)).high, high) << name.str();
  };
  double infinity = std::numeric_limits<double>::infinity();
  expect("clamp", -3, 2);
  expect("square", 0, 9);
  expect("mask", -1e9, 0);
  expect("masked", -infinity, infinity);
  expect("guard", 2, infinity);
}

// 1 - x is a mask only of an integer input, and only if it masks scores:
// positions stay positions.
TEST_F(IntegerValuesTest, OneMinusPositionsAreCounts) {
  func::FuncOp func =
      parse(R"(func.func @f(%ids: tensor<1024xi64>, %x: tensor<1024xf32>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %0 = mpc.iota axis(0) : tensor<1024xi64>
    %1 = mpc.cast %0 : tensor<1024xi64> to tensor<1024xf32> loc("positions")
    %2 = mpc.sub %one, %1 : (tensor<f32>, tensor<1024xf32>) -> tensor<1024xf32> loc("back")
    %3 = mpc.mul %2, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %4 = mpc.cast %ids : tensor<1024xi64> to tensor<1024xf32> loc("ids")
    %5 = mpc.sub %one, %4 : (tensor<f32>, tensor<1024xf32>) -> tensor<1024xf32> loc("of ids")
    %6 = mpc.mul %5, %x : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return
  })");
  IntegerValuedFloats integers(func);
  for (StringRef name : {"positions", "back", "ids", "of ids"})
    EXPECT_TRUE(integers.contains(find(name))) << name.str();
  EXPECT_EQ(integers.getMagnitude(find("back")), 1022);
}

TEST_F(IntegerValuesTest, RangesCountEveryWayToAnEnd) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<4xf32>, %n: tensor<4xui8>, %none: tensor<4x0xf32>) {
    %low = mpc.constant dense<-300.0> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %half = mpc.constant dense<0.5> : tensor<f32>
    %three = mpc.constant dense<3> : tensor<i32>
    %u = mpc.clamp %x, %low, %zero : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
    %0 = mpc.clamp %x, %zero, %u : (tensor<4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32> loc("clamp")
    %c = mpc.clamp %x, %half, %half : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
    %1 = mpc.cast %c : tensor<4xf32> to tensor<4xi32> loc("cast")
    %i = mpc.cast %n : tensor<4xui8> to tensor<4xi32>
    %2 = mpc.div %i, %three : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32> loc("div")
    %e = mpc.clamp %none, %zero, %half : (tensor<4x0xf32>, tensor<f32>, tensor<f32>) -> tensor<4x0xf32>
    %3 = mpc.reduce_max %e axes([1]) : tensor<4x0xf32> -> tensor<4xf32> loc("empty")
    return
  })");
  RangeAnalysis ranges(func);
  auto expect = [&](StringRef name, double low, double high) {
    EXPECT_EQ(ranges.get(find(name)).low, low) << name.str();
    EXPECT_EQ(ranges.get(find(name)).high, high) << name.str();
  };
  double infinity = std::numeric_limits<double>::infinity();
  expect("clamp", -300, 0);
  expect("cast", 0, 0);
  expect("div", 0, 85);
  expect("empty", -infinity, infinity);
}

TEST_F(IntegerValuesTest, IntegersThatWrapAreUnknown) {
  func::FuncOp func = parse(R"(func.func @f(%x: tensor<4xui8>) {
    %0 = mpc.add %x, %x : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8> loc("wraps")
    %1 = mpc.cast %x : tensor<4xui8> to tensor<4xi32> loc("wider")
    %2 = mpc.add %1, %1 : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc("fits")
    return
  })");
  RangeAnalysis ranges(func);
  EXPECT_EQ(ranges.get(find("wraps")).high, 255);
  EXPECT_EQ(ranges.get(find("wraps")).low, 0);
  EXPECT_EQ(ranges.get(find("wider")).high, 255);
  EXPECT_EQ(ranges.get(find("fits")).high, 510);
}

TEST_F(IntegerValuesTest, FormatsRoundOnce) {
  FloatType f16 = Float16Type::get(&context),
            bf16 = BFloat16Type::get(&context);
  EXPECT_EQ(roundedTo(65519.0, f16), 65504.0);
  EXPECT_TRUE(std::isinf(roundedTo(65520.0, f16)));
  EXPECT_EQ(roundedTo(0x1p-25, f16), 0.0);
  EXPECT_EQ(roundedTo(0x1.8p-25, f16), 0x1p-24);
  EXPECT_TRUE(std::isinf(roundedTo(-3.4028234663852886e38, bf16)));
  EXPECT_EQ(exactIntegerLimit(f16), 2048);
  EXPECT_EQ(exactIntegerLimit(bf16), 256);
}

TEST_F(IntegerValuesTest, TheRangeOfAMeanEndsWhereItsSumMayWrap) {
  func::FuncOp func =
      parse(R"(func.func @f(%b: tensor<129xui8>, %s: tensor<128xui8>) {
    %0 = mpc.cast %b : tensor<129xui8> to tensor<129xi16>
    %1 = mpc.reduce_mean %0 axes([0]) : tensor<129xi16> -> tensor<i16> loc("wraps")
    %2 = mpc.cast %s : tensor<128xui8> to tensor<128xi16>
    %3 = mpc.reduce_mean %2 axes([0]) : tensor<128xi16> -> tensor<i16> loc("fits")
    %4 = mpc.cast %b : tensor<129xui8> to tensor<129xi32>
    %5 = mpc.reduce_mean %4 axes([0]) : tensor<129xi32> -> tensor<i32> loc("wide")
    %6 = mpc.cast %b : tensor<129xui8> to tensor<129xf16>
    %7 = mpc.reduce_mean %6 axes([0]) : tensor<129xf16> -> tensor<f16> loc("float")
    return
  })");
  RangeAnalysis ranges(func);
  // 129 * 255 is more than 32,767, 128 * 255 is not.
  EXPECT_FALSE(ranges.get(find("wraps")).isWithin(-32768, 32767));
  EXPECT_TRUE(ranges.get(find("fits")).isWithin(0, 255));
  EXPECT_TRUE(ranges.get(find("wide")).isWithin(0, 255));
  EXPECT_TRUE(ranges.get(find("float")).isWithin(0, 255));
}

} // namespace
