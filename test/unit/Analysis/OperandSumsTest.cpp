//===- OperandSumsTest.cpp - operand sums fused into a matmul -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OperandSums.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class PooledImagesTest : public ::testing::Test {
protected:
  PooledImagesTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  /// Returns true if `reduction`, of %1 with elementwise ops `between` after
  /// the convolution, is a global pooling of its images.
  bool isPooled(
      const std::string &reduction,
      const std::string &between = "%1 = mpc.silu %0 : tensor<2x5x5x8xf32>",
      const std::string &filter = "8x1x3x3",
      const std::string &groups = "groups(8)",
      const std::string &layout = "layout(channels_last)") {
    std::string text =
        "func.func @main(%x: tensor<2x5x5x8xf32>, %w: tensor<" + filter +
        "xf32>) {\n  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) "
        "dilations([1, 1]) " +
        groups + " " + layout + " : (tensor<2x5x5x8xf32>, tensor<" + filter +
        "xf32>) -> tensor<2x5x5x8xf32>\n  " + between + "\n  " + reduction +
        "\n  return\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    Block &block = module->lookupSymbol<func::FuncOp>("main").getBody().front();
    return poolsImages(block.getTerminator()->getPrevNode(),
                       cast<ConvOp>(block.front()));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

constexpr const char *kMean = "%2 = mpc.reduce_mean %1 axes([1, 2]) : "
                              "tensor<2x5x5x8xf32> -> tensor<2x8xf32>";

TEST_F(PooledImagesTest, MeansAndSumsOverPixels) {
  EXPECT_TRUE(isPooled(kMean));
  EXPECT_TRUE(isPooled("%2 = mpc.reduce_sum %1 axes([1, 2]) keep_dims : "
                       "tensor<2x5x5x8xf32> -> tensor<2x1x1x8xf32>"));
}

TEST_F(PooledImagesTest, OtherDimensionsAndExtremesAreNone) {
  EXPECT_FALSE(isPooled("%2 = mpc.reduce_mean %1 axes([0, 1, 2]) : "
                        "tensor<2x5x5x8xf32> -> tensor<8xf32>"));
  EXPECT_FALSE(isPooled("%2 = mpc.reduce_mean %1 axes([2]) : "
                        "tensor<2x5x5x8xf32> -> tensor<2x5x8xf32>"));
  EXPECT_FALSE(isPooled("%2 = mpc.reduce_max %1 axes([1, 2]) : "
                        "tensor<2x5x5x8xf32> -> tensor<2x8xf32>"));
}

TEST_F(PooledImagesTest, WhatElementwiseOpsMake) {
  EXPECT_TRUE(isPooled(kMean, "%1 = mpc.mul %0, %x : (tensor<2x5x5x8xf32>, "
                              "tensor<2x5x5x8xf32>) -> tensor<2x5x5x8xf32>"));
  // It does not depend on the convolution, or on pixels at other positions.
  EXPECT_FALSE(isPooled(kMean, "%1 = mpc.silu %x : tensor<2x5x5x8xf32>"));
  EXPECT_FALSE(
      isPooled(kMean, "%1 = mpc.reverse %0 axes([1]) : tensor<2x5x5x8xf32>"));
}

TEST_F(PooledImagesTest, FiltersForEachChannelAlone) {
  EXPECT_FALSE(
      isPooled(kMean, "%1 = mpc.silu %0 : tensor<2x5x5x8xf32>", "8x8x3x3", ""));
  EXPECT_FALSE(isPooled(kMean, "%1 = mpc.silu %0 : tensor<2x5x5x8xf32>",
                        "8x2x3x3", "groups(4)"));
}

} // namespace
