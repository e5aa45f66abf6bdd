//===- IndexBoundsTest.cpp - bounds of integer inputs ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/IndexBounds.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class IndexBoundsTest : public ::testing::Test {
protected:
  IndexBoundsTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  /// The bound of the first argument of the function in `text`, 0 for none.
  int64_t bound(StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto func = *module->getOps<func::FuncOp>().begin();
    return indexBound(func.getArgument(0)).value_or(0);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace

TEST_F(IndexBoundsTest, ReadersGoByTheSmallestExtent) {
  EXPECT_EQ(bound(R"(
    func.func @f(%ids: tensor<4xi64>, %large: tensor<50x8xf32>, %small: tensor<9x8xf32>) {
      %0 = mpc.gather %large, %ids axis(0) : (tensor<50x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
      %1 = mpc.reshape %ids : tensor<4xi64> to tensor<2x2xi64>
      %2 = mpc.gather %small, %1 axis(0) : (tensor<9x8xf32>, tensor<2x2xi64>) -> tensor<2x2x8xf32>
      return
    })"),
            9);
}

TEST_F(IndexBoundsTest, NumbersIndexNothing) {
  EXPECT_EQ(bound(R"(
    func.func @f(%n: tensor<4xi64>, %ids: tensor<2xi64>) {
      %0 = mpc.gather %n, %ids axis(0) : (tensor<4xi64>, tensor<2xi64>) -> tensor<2xi64>
      %1 = mpc.cast %0 : tensor<2xi64> to tensor<2xf32>
      return
    })"),
            0);
}

// Indices may be gathered from a table of indices, or be padded.
TEST_F(IndexBoundsTest, IndicesAreFollowedThroughGathersAndPads) {
  EXPECT_EQ(bound(R"(
    func.func @f(%ids: tensor<4xi64>, %which: tensor<3xi64>, %table: tensor<9x8xf32>) {
      %0 = mpc.gather %ids, %which axis(0) : (tensor<4xi64>, tensor<3xi64>) -> tensor<3xi64>
      %1 = mpc.gather %table, %0 axis(0) : (tensor<9x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
      return
    })"),
            9);
  EXPECT_EQ(bound(R"(
    func.func @f(%ids: tensor<4xi64>, %none: tensor<i64>, %table: tensor<9x8xf32>) {
      %0 = mpc.pad %ids, %none low([0]) high([2]) : (tensor<4xi64>, tensor<i64>) -> tensor<6xi64>
      %1 = mpc.gather %table, %0 axis(0) : (tensor<9x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
      return
    })"),
            9);
}

// Positions of a table whose first rows are for other things.
TEST_F(IndexBoundsTest, WhatIsAddedLeavesFewer) {
  EXPECT_EQ(bound(R"(
    func.func @f(%ids: tensor<4xi64>, %table: tensor<24x8xf32>) {
      %two = mpc.constant dense<2> : tensor<i64>
      %0 = mpc.add %ids, %two : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
      %1 = mpc.gather %table, %0 axis(0) : (tensor<24x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
      return
    })"),
            22);
}
