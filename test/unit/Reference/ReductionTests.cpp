//===- ReductionTests.cpp - reductions, softmax, norms --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using ReductionTest = ReferenceTest;

TEST_F(ReductionTest, ReducesAnyAxes) {
  Tensor x =
      floats("tensor<2x3x2xf32>", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expectFloats(
      "mpc.reduce_sum %0 axes([1]) : tensor<2x3x2xf32> -> tensor<2x2xf32>", {x},
      "tensor<2x2xf32>", {9, 12, 27, 30});
  expectFloats(
      "mpc.reduce_sum %0 axes([0, 2]) keep_dims : tensor<2x3x2xf32> -> "
      "tensor<1x3x1xf32>",
      {x}, "tensor<1x3x1xf32>", {18, 26, 34});
  expectFloats(
      "mpc.reduce_mean %0 axes([0, 1, 2]) : tensor<2x3x2xf32> -> tensor<f32>",
      {x}, "tensor<f32>", {6.5});
  expectFloats(
      "mpc.reduce_prod %0 axes([0]) : tensor<2x3x2xf32> -> tensor<3x2xf32>",
      {x}, "tensor<3x2xf32>", {7, 16, 27, 40, 55, 72});
  expectFloats(
      "mpc.reduce_max %0 axes([2]) : tensor<2x3x2xf32> -> tensor<2x3xf32>", {x},
      "tensor<2x3xf32>", {2, 4, 6, 8, 10, 12});
  expectFloats(
      "mpc.reduce_min %0 axes([0]) : tensor<2x3x2xf32> -> tensor<3x2xf32>", {x},
      "tensor<3x2xf32>", {1, 2, 3, 4, 5, 6});
}

TEST_F(ReductionTest, ExtremaOfNanAndOfNothing) {
  Tensor x = floats("tensor<3xf32>", {1, kNan, 2});
  expectFloats("mpc.reduce_max %0 axes([0]) : tensor<3xf32> -> tensor<f32>",
               {x}, "tensor<f32>", {kNan});
  expectFloats("mpc.reduce_max %0 axes([0]) : tensor<0x2xf32> -> tensor<2xf32>",
               {floats("tensor<0x2xf32>", {})}, "tensor<2xf32>",
               {-kInf, -kInf});
  expectInts("mpc.reduce_min %0 axes([0]) : tensor<0x1xi8> -> tensor<1xi8>",
             {ints("tensor<0x1xi8>", {})}, "tensor<1xi8>", {127});
}

TEST_F(ReductionTest, IntegersWrapAndMeansTruncate) {
  Tensor x = ints("tensor<3xi8>", {100, 100, 1});
  expectInts("mpc.reduce_sum %0 axes([0]) : tensor<3xi8> -> tensor<i8>", {x},
             "tensor<i8>", {-55});
  expectInts("mpc.reduce_mean %0 axes([0]) : tensor<2xi32> -> tensor<i32>",
             {ints("tensor<2xi32>", {-3, -4})}, "tensor<i32>", {-3});
}

TEST_F(ReductionTest, SumsRoundInTheAccumulateType) {
  std::vector<double> ones(300, 1.0);
  Tensor x = floats("tensor<300xbf16>", ones);
  // 256 + 1 is no bf16 number.
  expectFloats("mpc.reduce_sum %0 axes([0]) : tensor<300xbf16> -> tensor<bf16>",
               {x}, "tensor<bf16>", {256}, 0, Rounding::Declared);
  expectFloats("mpc.reduce_sum %0 axes([0]) accumulate(f32) : tensor<300xbf16> "
               "-> tensor<bf16>",
               {x}, "tensor<bf16>", {300}, 0, Rounding::Declared);
  expectFloats("mpc.reduce_sum %0 axes([0]) : tensor<300xbf16> -> tensor<f32>",
               {x}, "tensor<f32>", {300}, 0, Rounding::Declared);
}

TEST_F(ReductionTest, ArgExtremaBreakTiesAsAsked) {
  Tensor x = floats("tensor<2x3xf32>", {1, 3, 3, 5, 4, 5});
  expectInts("mpc.argmax %0 axis(1) : tensor<2x3xf32> -> tensor<2xi64>", {x},
             "tensor<2xi64>", {1, 0});
  expectInts("mpc.argmax %0 axis(1) keep_dims select_last : tensor<2x3xf32> -> "
             "tensor<2x1xi64>",
             {x}, "tensor<2x1xi64>", {2, 2});
  expectInts("mpc.argmin %0 axis(0) : tensor<2x3xf32> -> tensor<3xi64>", {x},
             "tensor<3xi64>", {0, 0, 0});
  expectInts("mpc.argmin %0 axis(0) : tensor<2xui64> -> tensor<i64>",
             {ints("tensor<2xui64>", {-1, 3})}, "tensor<i64>", {1});
}

TEST_F(ReductionTest, CumsumRunsBothWays) {
  Tensor x = floats("tensor<2x3xf32>", {1, 2, 3, 4, 5, 6});
  expectFloats("mpc.cumsum %0 axis(1) : tensor<2x3xf32>", {x},
               "tensor<2x3xf32>", {1, 3, 6, 4, 9, 15});
  expectFloats("mpc.cumsum %0 axis(1) exclusive reverse : tensor<2x3xf32>", {x},
               "tensor<2x3xf32>", {5, 3, 0, 11, 6, 0});
  expectInts("mpc.cumsum %0 axis(0) : tensor<2xi8>",
             {ints("tensor<2xi8>", {127, 1})}, "tensor<2xi8>", {127, -128});
}

TEST_F(ReductionTest, TopKKeepsTheOrderOfEqualElements) {
  Tensor x = floats("tensor<2x4xf32>", {1, 4, 4, 2, 3, 0, 3, 5});
  SmallVector<Tensor> top = run("mpc.top_k %0 k(3) axis(1) : tensor<2x4xf32> "
                                "-> tensor<2x3xf32>, tensor<2x3xi64>",
                                {x}, {"tensor<2x3xf32>", "tensor<2x3xi64>"});
  expectNear(top[0], {4, 4, 2, 5, 3, 3}, 0);
  EXPECT_EQ(ArrayRef<int64_t>(top[1].ints()),
            ArrayRef<int64_t>({1, 2, 3, 3, 0, 2}));
  top = run("mpc.top_k %0 k(1) axis(0) largest(false) : tensor<2x4xf32> -> "
            "tensor<1x4xf32>, "
            "tensor<1x4xi64>",
            {x}, {"tensor<1x4xf32>", "tensor<1x4xi64>"});
  expectNear(top[0], {1, 0, 3, 2}, 0);
  EXPECT_EQ(ArrayRef<int64_t>(top[1].ints()), ArrayRef<int64_t>({0, 1, 1, 0}));
}

TEST_F(ReductionTest, SoftmaxAlongAnyAxis) {
  Tensor x = floats("tensor<2x2xf32>", {0, 1000, std::log(3.0), 1000});
  expectFloats("mpc.softmax %0 axis(0) : tensor<2x2xf32>", {x},
               "tensor<2x2xf32>", {0.25, 0.5, 0.75, 0.5}, 1e-15);
  expectFloats(
      "mpc.log_softmax %0 axis(0) : tensor<2x2xf32>", {x}, "tensor<2x2xf32>",
      {std::log(0.25), std::log(0.5), std::log(0.75), std::log(0.5)}, 1e-15);
}

TEST_F(ReductionTest, LayerNormAndRmsNorm) {
  Tensor x = floats("tensor<2x2xf32>", {1, 3, -2, 2});
  Tensor scale = floats("tensor<2xf32>", {1, 10}),
         bias = floats("tensor<2xf32>", {0, 5});
  expectFloats("mpc.layer_norm %0, %1, %2 axis(1) epsilon(0.0) : "
               "(tensor<2x2xf32>, tensor<2xf32>, "
               "tensor<2xf32>) -> tensor<2x2xf32>",
               {x, scale, bias}, "tensor<2x2xf32>", {-1, 15, -1, 15}, 1e-15);
  // Over both axes without bias: mean 1, variance 3.5, epsilon 0.5.
  expectFloats("mpc.layer_norm %0, %1 axis(0) epsilon(0.5) : (tensor<2x2xf32>, "
               "tensor<2xf32>) -> "
               "tensor<2x2xf32>",
               {x, scale}, "tensor<2x2xf32>", {0, 10, -1.5, 5}, 1e-15);
  expectFloats("mpc.rms_norm %0, %1 axis(1) epsilon(0.0) : (tensor<2x2xf32>, "
               "tensor<2xf32>) -> "
               "tensor<2x2xf32>",
               {x, scale}, "tensor<2x2xf32>",
               {1 / std::sqrt(5.0), 30 / std::sqrt(5.0), -1, 10}, 1e-15);
}

TEST_F(ReductionTest, BatchGroupAndInstanceNorm) {
  Tensor x = floats("tensor<1x2x2xf32>", {1, 3, 10, 30});
  Tensor scale = floats("tensor<2xf32>", {1, 2}),
         bias = floats("tensor<2xf32>", {0, 1});
  Tensor mean = floats("tensor<2xf32>", {1, 10}),
         variance = floats("tensor<2xf32>", {4, 100});
  expectFloats(
      "mpc.batch_norm %0, %1, %2, %3, %4 epsilon(0.0) : (tensor<1x2x2xf32>, "
      "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> "
      "tensor<1x2x2xf32>",
      {x, scale, bias, mean, variance}, "tensor<1x2x2xf32>", {0, 1, 1, 5},
      1e-15);
  std::string types = " : (tensor<1x2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> "
                      "tensor<1x2x2xf32>";
  expectFloats("mpc.instance_norm %0, %1, %2 epsilon(0.0)" + types,
               {x, scale, bias}, "tensor<1x2x2xf32>", {-1, 1, -1, 3}, 1e-15);
  expectFloats("mpc.group_norm %0, %1, %2 groups(2) epsilon(0.0)" + types,
               {x, scale, bias}, "tensor<1x2x2xf32>", {-1, 1, -1, 3}, 1e-15);
  // One group: mean 11, variance ((10^2 + 8^2 + 1 + 19^2) / 4) = 131.5.
  double root = std::sqrt(131.5);
  expectFloats("mpc.group_norm %0, %1, %2 groups(1) epsilon(0.0)" + types,
               {x, scale, bias}, "tensor<1x2x2xf32>",
               {-10 / root, -8 / root, 1 - 2 / root, 1 + 38 / root}, 1e-14);
}

} // namespace
