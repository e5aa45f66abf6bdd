//===- ContractionTests.cpp - matmul, conv, attention, pools --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compared with loops written straight from the op descriptions.
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

#include <chrono>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using ContractionTest = ReferenceTest;

TEST_F(ContractionTest, MatmulMatchesNaiveLoops) {
  // Sizes off the tile borders; batch 2x1 against 3.
  Tensor a = random("tensor<2x1x7x300xf32>"),
         b = random("tensor<3x300x261xf32>");
  SmallVector<Tensor> result =
      run("mpc.matmul %0, %1 : (tensor<2x1x7x300xf32>, tensor<3x300x261xf32>) "
          "-> tensor<2x3x7x261xf32>",
          {a, b}, {"tensor<2x3x7x261xf32>"});
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int m = 0; m < 7; ++m)
        for (int n = 0; n < 261; ++n) {
          double sum = 0;
          for (int k = 0; k < 300; ++k)
            sum += a.floats()[(i * 7 + m) * 300 + k] *
                   b.floats()[(j * 300 + k) * 261 + n];
          expected.push_back(sum);
        }
  expectNear(result[0], expected, 0);
}

TEST_F(ContractionTest, MatmulTransposes) {
  Tensor a = floats("tensor<3x2xf32>", {1, 4, 2, 5, 3, 6});
  Tensor b = floats("tensor<2x3xf32>", {1, 0, 1, 0, 1, 0});
  expectFloats("mpc.matmul %0, %1 transpose_lhs transpose_rhs : "
               "(tensor<3x2xf32>, tensor<2x3xf32>) "
               "-> tensor<2x2xf32>",
               {a, b}, "tensor<2x2xf32>", {4, 2, 10, 5});
}

TEST_F(ContractionTest, SharedRhsRunsTheWholeBatch) {
  Tensor a = random("tensor<2x3x4xf32>"), b = random("tensor<4x5xf32>");
  SmallVector<Tensor> batched = run("mpc.matmul %0, %1 : (tensor<2x3x4xf32>, "
                                    "tensor<4x5xf32>) -> tensor<2x3x5xf32>",
                                    {a, b}, {"tensor<2x3x5xf32>"});
  SmallVector<Tensor> flat =
      run("mpc.matmul %0, %1 : (tensor<6x4xf32>, tensor<4x5xf32>) -> "
          "tensor<6x5xf32>",
          {a.withType(type("tensor<6x4xf32>")), b}, {"tensor<6x5xf32>"});
  expectNear(batched[0], flat[0].floats(), 0);
}

TEST_F(ContractionTest, AccumulateTypeDecidesWhatIsLost) {
  // 2048 + 1 is not representable in f16 and bf16; f32 represents it.
  std::vector<double> ones(2050, 1.0);
  Tensor a = floats("tensor<1x2050xf16>", ones),
         b = floats("tensor<2050x1xf16>", ones);
  expectFloats("mpc.matmul %0, %1 : (tensor<1x2050xf16>, tensor<2050x1xf16>) "
               "-> tensor<1x1xf32>",
               {a, b}, "tensor<1x1xf32>", {2050}, 0, Rounding::Declared);
  expectFloats("mpc.matmul %0, %1 : (tensor<1x2050xf16>, tensor<2050x1xf16>) "
               "-> tensor<1x1xf16>",
               {a, b}, "tensor<1x1xf16>", {2048}, 0, Rounding::Declared);
  expectFloats("mpc.matmul %0, %1 accumulate(f32) : (tensor<1x2050xf16>, "
               "tensor<2050x1xf16>) -> "
               "tensor<1x1xf16>",
               {a, b}, "tensor<1x1xf16>", {2050}, 0, Rounding::Declared);
  expectFloats("mpc.matmul %0, %1 : (tensor<1x2050xf16>, tensor<2050x1xf16>) "
               "-> tensor<1x1xf16>",
               {a, b}, "tensor<1x1xf16>", {2050});
}

TEST_F(ContractionTest, DeclaredF32RoundsEverySum) {
  Tensor a = floats("tensor<1x3xf32>", {0x1p24, 1, 1}),
         b = floats("tensor<3x1xf32>", {1, 1, 1});
  const char *op = "mpc.matmul %0, %1 : (tensor<1x3xf32>, tensor<3x1xf32>) -> "
                   "tensor<1x1xf32>";
  expectFloats(op, {a, b}, "tensor<1x1xf32>", {0x1p24 + 2});
  expectFloats(op, {a, b}, "tensor<1x1xf32>", {0x1p24}, 0, Rounding::Declared);
}

TEST_F(ContractionTest, ComputeModesLoseTheBitsTheyShould) {
  // 1 + 2^-12 needs 13 bits: tf32 drops them, a bf16x2 split represents them.
  Tensor a = floats("tensor<1x1xf32>", {1 + 0x1p-12}),
         b = floats("tensor<1x1xf32>", {1});
  auto check = [&](std::string mode, double expected) {
    expectFloats(
        "mpc.matmul %0, %1 compute(" + mode +
            ") : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>",
        {a, b}, "tensor<1x1xf32>", {expected}, 0, Rounding::Declared);
  };
  check("tf32", 1);
  // Halves go away from zero, on both sides of it; to even they would stay.
  a = floats("tensor<1x1xf32>", {1 + 0x1p-11});
  check("tf32", 1 + 0x1p-10);
  a = floats("tensor<1x1xf32>", {-1 - 0x1p-11});
  check("tf32", -1 - 0x1p-10);
  a = floats("tensor<1x1xf32>", {1 + 0x1p-12});
  check("bf16x2", 1 + 0x1p-12);
  check("bf16x3", 1 + 0x1p-12);
  // A bf16x2 split has 16 bits here, bf16x3 has 24.
  a = floats("tensor<1x1xf32>", {1 + 0x1p-9 + 0x1p-16 + 0x1p-23});
  check("bf16x2", 1 + 0x1p-9 + 0x1p-16);
  check("bf16x3", 1 + 0x1p-9 + 0x1p-16 + 0x1p-23);
  // An infinity has no second term, whatever the other side's is.
  a = floats("tensor<1x1xf32>", {-std::numeric_limits<double>::infinity()});
  check("bf16x2", -std::numeric_limits<double>::infinity());
  check("bf16x3", -std::numeric_limits<double>::infinity());
}

TEST_F(ContractionTest, PackedRhsIsUnpacked) {
  // 3 columns in panels of 2: [panel][k][column], the last column of panel 1 is
  // padding.
  Tensor a = floats("tensor<1x2xf32>", {1, 10});
  Tensor b = floats("tensor<2x2x2xf32>", {1, 2, 4, 5, 3, 0, 6, 0});
  expectFloats("mpc.matmul %0, %1 packed <columns = 2> : (tensor<1x2xf32>, "
               "tensor<2x2x2xf32>) -> "
               "tensor<1x3xf32>",
               {a, b}, "tensor<1x3xf32>", {41, 52, 63});
  // One panel of 4 columns; lane 2 * j + h holds column j + 2 * h.
  Tensor c = floats("tensor<1x2x4xbf16>", {1, 3, 2, 4, 5, 7, 6, 8});
  expectFloats("mpc.matmul %0, %1 packed <columns = 4, interleave = 2> : "
               "(tensor<1x2xbf16>, tensor<1x2x4xbf16>) -> tensor<1x4xf32>",
               {floats("tensor<1x2xbf16>", {1, 10}), c}, "tensor<1x4xf32>",
               {51, 62, 73, 84});
  // Three positions in steps of two; the last one's second is padding.
  Tensor d = floats("tensor<1x2x4xbf16>", {1, 2, 4, 5, 3, 0, 6, 0});
  expectFloats("mpc.matmul %0, %1 packed <columns = 2, depth = 2> : "
               "(tensor<1x3xbf16>, tensor<1x2x4xbf16>) -> tensor<1x2xf32>",
               {floats("tensor<1x3xbf16>", {1, 10, 100}), d}, "tensor<1x2xf32>",
               {321, 654});
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

struct ConvCase {
  int64_t batch = 2, channels = 6, height = 9, width = 8, outputs = 4,
          kernelH = 3, kernelW = 2;
  int64_t strideH = 2, strideW = 1, padTop = 1, padLeft = 0, padBottom = 2,
          padRight = 1;
  int64_t dilationH = 1, dilationW = 2, groups = 2;
  int64_t outHeight() const {
    return (height + padTop + padBottom - dilationH * (kernelH - 1) - 1) /
               strideH +
           1;
  }
  int64_t outWidth() const {
    return (width + padLeft + padRight - dilationW * (kernelW - 1) - 1) /
               strideW +
           1;
  }
};

std::vector<double> naiveConv(const ConvCase &c, ArrayRef<double> x,
                              ArrayRef<double> w) {
  std::vector<double> result;
  int64_t perGroup = c.channels / c.groups;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.outputs; ++o)
      for (int64_t oh = 0; oh < c.outHeight(); ++oh)
        for (int64_t ow = 0; ow < c.outWidth(); ++ow) {
          double sum = 0;
          for (int64_t i = 0; i < perGroup; ++i)
            for (int64_t kh = 0; kh < c.kernelH; ++kh)
              for (int64_t kw = 0; kw < c.kernelW; ++kw) {
                int64_t ih = oh * c.strideH - c.padTop + kh * c.dilationH;
                int64_t iw = ow * c.strideW - c.padLeft + kw * c.dilationW;
                int64_t channel = o / (c.outputs / c.groups) * perGroup + i;
                if (ih >= 0 && ih < c.height && iw >= 0 && iw < c.width)
                  sum +=
                      x[((n * c.channels + channel) * c.height + ih) * c.width +
                        iw] *
                      w[((o * perGroup + i) * c.kernelH + kh) * c.kernelW + kw];
              }
          result.push_back(sum);
        }
  return result;
}

TEST_F(ContractionTest, ConvMatchesNaiveLoopsInBothLayouts) {
  ConvCase c;
  Tensor x = random("tensor<2x6x9x8xf32>"), w = random("tensor<4x3x3x2xf32>");
  std::vector<double> expected = naiveConv(c, x.floats(), w.floats());
  std::string window =
      " strides([2, 1]) pad([1, 0], [2, 1]) dilations([1, 2]) groups(2) ";
  std::string shape = "tensor<2x4x" + std::to_string(c.outHeight()) + "x" +
                      std::to_string(c.outWidth()) + "xf32>";
  SmallVector<Tensor> first =
      run("mpc.conv %0, %1" + window +
              ": (tensor<2x6x9x8xf32>, tensor<4x3x3x2xf32>) -> " + shape,
          {x, w}, {shape});
  ASSERT_EQ(first.size(), 1u);
  expectNear(first[0], expected, 1e-13);

  std::string lastShape = "tensor<2x" + std::to_string(c.outHeight()) + "x" +
                          std::to_string(c.outWidth()) + "x4xf32>";
  Tensor xLast = run("mpc.transpose %0 [0, 2, 3, 1] : tensor<2x6x9x8xf32> to "
                     "tensor<2x9x8x6xf32>",
                     {x}, {"tensor<2x9x8x6xf32>"})[0];
  SmallVector<Tensor> last =
      run("mpc.conv %0, %1" + window +
              "layout(channels_last) : (tensor<2x9x8x6xf32>, "
              "tensor<4x3x3x2xf32>) -> " +
              lastShape,
          {xLast, w}, {lastShape});
  ASSERT_EQ(last.size(), 1u);
  Tensor back =
      run("mpc.transpose %0 [0, 3, 1, 2] : " + lastShape + " to " + shape,
          {last[0]}, {shape})[0];
  expectNear(back, expected, 1e-13);
}

TEST_F(ContractionTest, PackedFilterGivesTheSameConv) {
  // 3 outputs in panels of 2, 1x2 window, 2 channels: [panel][window *
  // channel][column].
  Tensor x = random("tensor<1x2x1x5xf32>"), w = random("tensor<3x2x1x2xf32>");
  Tensor packed(type("tensor<2x4x2xf32>"));
  for (int o = 0; o < 3; ++o)
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 2; ++k)
        packed.floats()[(o / 2 * 4 + k * 2 + i) * 2 + o % 2] =
            w.floats()[(o * 2 + i) * 2 + k];
  std::string window =
      " strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) ";
  SmallVector<Tensor> plain =
      run("mpc.conv %0, %1" + window +
              ": (tensor<1x2x1x5xf32>, tensor<3x2x1x2xf32>) -> "
              "tensor<1x3x1x4xf32>",
          {x, w}, {"tensor<1x3x1x4xf32>"});
  SmallVector<Tensor> other =
      run("mpc.conv %0, %1" + window +
              "window([1, 2]) packed <columns = 2> : (tensor<1x2x1x5xf32>, "
              "tensor<2x4x2xf32>) -> "
              "tensor<1x3x1x4xf32>",
          {x, packed}, {"tensor<1x3x1x4xf32>"});
  ASSERT_EQ(other.size(), 1u);
  expectNear(other[0], plain[0].floats(), 0);
}

// conv_transpose is the adjoint of conv: <conv(x), y> = <x, conv_transpose(y)>.
TEST_F(ContractionTest, ConvTransposeIsTheAdjointOfConv) {
  Tensor x = random("tensor<1x4x7x6xf64>"), y = random("tensor<1x6x4x3xf64>");
  Tensor w = random("tensor<6x2x3x3xf64>");
  std::string window =
      " strides([2, 2]) pad([1, 1], [1, 1]) dilations([1, 1]) ";
  SmallVector<Tensor> forward =
      run("mpc.conv %0, %1" + window +
              "groups(2) : (tensor<1x4x7x6xf64>, tensor<6x2x3x3xf64>) -> "
              "tensor<1x6x4x3xf64>",
          {x, w}, {"tensor<1x6x4x3xf64>"});
  SmallVector<Tensor> backward =
      run("mpc.conv_transpose %0, %1" + window +
              "output_padding([0, 1]) groups(2) : (tensor<1x6x4x3xf64>, "
              "tensor<6x2x3x3xf64>) -> "
              "tensor<1x4x7x6xf64>",
          {y, w}, {"tensor<1x4x7x6xf64>"});
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.size(); ++i)
    left += forward[0].floats()[i] * y.floats()[i];
  for (int64_t i = 0; i < x.size(); ++i)
    right += backward[0].floats()[i] * x.floats()[i];
  EXPECT_NEAR(left, right, 1e-11);
  EXPECT_NE(left, 0);
}

// The oracle must stay usable on whole models.
TEST_F(ContractionTest, ConvIsNotSlow) {
  Tensor x = random("tensor<1x64x56x56xf32>"),
         w = random("tensor<64x64x3x3xf32>");
  auto start = std::chrono::steady_clock::now();
  run("mpc.conv %0, %1 strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) : "
      "(tensor<1x64x56x56xf32>, tensor<64x64x3x3xf32>) -> "
      "tensor<1x64x56x56xf32>",
      {x, w}, {"tensor<1x64x56x56xf32>"});
  double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  RecordProperty("gflops",
                 std::to_string(2.0 * 64 * 64 * 9 * 56 * 56 / seconds / 1e9));
  EXPECT_LT(seconds, 5) << "0.23 GFLOP took too long";
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

TEST_F(ContractionTest, PoolsHandlePaddingAndCeil) {
  Tensor x = floats("tensor<1x1x5xf32>", {-1, -2, -3, -4, -5});
  expectFloats(
      "mpc.max_pool %0 window([3]) strides([2]) pad([1], [1]) dilations([1]) : "
      "tensor<1x1x5xf32> -> tensor<1x1x3xf32>",
      {x}, "tensor<1x1x3xf32>", {-1, -2, -4});
  expectFloats(
      "mpc.avg_pool %0 window([3]) strides([2]) pad([1], [1]) dilations([1]) : "
      "tensor<1x1x5xf32> -> tensor<1x1x3xf32>",
      {x}, "tensor<1x1x3xf32>", {-1.5, -3, -4.5});
  expectFloats(
      "mpc.avg_pool %0 window([3]) strides([2]) pad([1], [1]) dilations([1]) "
      "count_include_pad : tensor<1x1x5xf32> -> tensor<1x1x3xf32>",
      {x}, "tensor<1x1x3xf32>", {-1, -3, -3});
  // The last window exceeds the end: elements beyond the padding never count.
  expectFloats("mpc.avg_pool %0 window([2]) strides([2]) pad([0], [0]) "
               "dilations([1]) ceil_mode "
               "count_include_pad : tensor<1x1x5xf32> -> tensor<1x1x3xf32>",
               {x}, "tensor<1x1x3xf32>", {-1.5, -3.5, -5});
  expectInts(
      "mpc.max_pool %0 window([2]) strides([1]) pad([0], [0]) dilations([2]) "
      "layout(channels_last) : tensor<1x3x2xi8> -> tensor<1x1x2xi8>",
      {ints("tensor<1x3x2xi8>", {1, 2, 9, 9, 3, -4})}, "tensor<1x1x2xi8>",
      {3, 2});
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

TEST_F(ContractionTest, AttentionMatchesItsFormula) {
  // 4 query heads over 2 key heads, additive mask per position, causal.
  Tensor q = random("tensor<2x4x3x5xf32>"), k = random("tensor<2x2x4x5xf32>"),
         v = random("tensor<2x2x4x6xf32>"), mask = random("tensor<3x4xf32>");
  SmallVector<Tensor> result = run("mpc.attention %0, %1, %2 mask(%3) "
                                   "scale(0.5) causal : (tensor<2x4x3x5xf32>, "
                                   "tensor<2x2x4x5xf32>, tensor<2x2x4x6xf32>, "
                                   "tensor<3x4xf32>) -> tensor<2x4x3x6xf32>",
                                   {q, k, v, mask}, {"tensor<2x4x3x6xf32>"});
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int s = 0; s < 3; ++s) {
        double weights[4], sum = 0;
        for (int t = 0; t < 4; ++t) {
          double score = 0;
          for (int d = 0; d < 5; ++d)
            score += q.floats()[((b * 4 + h) * 3 + s) * 5 + d] *
                     k.floats()[((b * 2 + h / 2) * 4 + t) * 5 + d];
          weights[t] =
              t <= s + 1 ? std::exp(0.5 * score + mask.floats()[s * 4 + t]) : 0;
          sum += weights[t];
        }
        for (int e = 0; e < 6; ++e) {
          double value = 0;
          for (int t = 0; t < 4; ++t)
            value += weights[t] / sum *
                     v.floats()[((b * 2 + h / 2) * 4 + t) * 6 + e];
          expected.push_back(value);
        }
      }
  expectNear(result[0], expected, 1e-13);
}

TEST_F(ContractionTest, AttentionRowWithoutKeptPositionGivesZeros) {
  Tensor q = random("tensor<1x2x3xf32>"), k = random("tensor<1x2x3xf32>"),
         v = floats("tensor<1x2x1xf32>", {4, 6}),
         mask = ints("tensor<2x2xi1>", {0, 0, 0, 1});
  const char *types = " scale(1.0) : (tensor<1x2x3xf32>, tensor<1x2x3xf32>, "
                      "tensor<1x2x1xf32>, ";
  for (Rounding rounding : {Rounding::Float64, Rounding::Declared}) {
    expectFloats(std::string("mpc.attention %0, %1, %2 mask(%3)") + types +
                     "tensor<2x2xi1>) -> tensor<1x2x1xf32>",
                 {q, k, v, mask}, "tensor<1x2x1xf32>", {0, 6}, 0, rounding);
    expectFloats(std::string("mpc.attention %0, %1, %2 mask(%3)") + types +
                     "tensor<2x2xf32>) -> tensor<1x2x1xf32>",
                 {q, k, v, floats("tensor<2x2xf32>", {-kInf, -kInf, -kInf, 0})},
                 "tensor<1x2x1xf32>", {0, 6}, 0, rounding);
  }
}

} // namespace
