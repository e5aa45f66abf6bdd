//===- RowIndependenceTest.cpp - ops that keep batch rows independent -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/BatchIndependence.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;
using Outcome = BatchIndependence::Outcome;

namespace {

class RowIndependenceTest : public ::testing::Test {
protected:
  RowIndependenceTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      said = diagnostic.str();
      return success();
    });
  }

  /// `text` with `rows` in place of each $, and three times as many in place of
  /// $3.
  static std::string withRows(StringRef text, int64_t rows) {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$') {
        result += text[i];
        continue;
      }
      int64_t times = 1;
      if (i + 1 < text.size() && isdigit(text[i + 1]))
        times = text[++i] - '0';
      result += std::to_string(times * rows);
    }
    return result;
  }

  /// Follows the rows of a function with 3 and with 8 of them.
  BatchIndependence follow(const std::string &text) {
    said.clear();
    few = parseSourceString<ModuleOp>(withRows(text, 3), &context);
    many = parseSourceString<ModuleOp>(withRows(text, 8), &context);
    EXPECT_TRUE(few && many) << text << said;
    if (!few || !many)
      return {};
    return checkBatchIndependence(*few->getOps<func::FuncOp>().begin(),
                                  *many->getOps<func::FuncOp>().begin(), 3, 8,
                                  "batch");
  }
  /// The same for a body that computes %y from %x: tensor<$x4xf32>.
  BatchIndependence followBody(const std::string &body,
                               const std::string &type) {
    return follow("func.func @f(%x: tensor<$x4xf32>, %n: tensor<$xi64>) -> " +
                  type + " {\n" + body + "\n return %y : " + type + "\n}");
  }
  void expectPlace(const BatchIndependence &rows, unsigned dim, int64_t width) {
    ASSERT_EQ(rows.outcome, Outcome::Independent) << said;
    ASSERT_EQ(rows.results.size(), 1u);
    ASSERT_TRUE(rows.results[0]);
    EXPECT_EQ(rows.results[0]->dim, dim);
    EXPECT_EQ(rows.results[0]->width, width);
  }
  void expectMixed(const BatchIndependence &rows, const std::string &why) {
    EXPECT_EQ(rows.outcome, Outcome::Mixed);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find("dimension 'batch' cannot be padded from 3 to 8"),
              std::string::npos)
        << said;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> few, many;
  std::string said;
};

} // namespace

TEST_F(RowIndependenceTest, RowsGoThroughLayers) {
  expectPlace(followBody(R"(
    %w = mpc.constant dense<0.5> : tensor<4x6xf32>
    %b = mpc.constant dense<1.0> : tensor<6xf32>
    %0 = mpc.matmul %x, %w : (tensor<$x4xf32>, tensor<4x6xf32>) -> tensor<$x6xf32>
    %1 = mpc.add %0, %b : (tensor<$x6xf32>, tensor<6xf32>) -> tensor<$x6xf32>
    %2 = mpc.softmax %1 axis(1) : tensor<$x6xf32>
    %y = mpc.transpose %2 [1, 0] : tensor<$x6xf32> to tensor<6x$xf32>)",
                         "tensor<6x$xf32>"),
              1, 1);
}

// After a reshape a row is two adjacent rows, or is split into several runs.
TEST_F(RowIndependenceTest, ReshapesKeepRowsWhole) {
  expectPlace(
      followBody("%y = mpc.reshape %x : tensor<$x4xf32> to tensor<$2x2xf32>",
                 "tensor<$2x2xf32>"),
      0, 2);
  expectPlace(followBody(R"(
    %0 = mpc.transpose %x [1, 0] : tensor<$x4xf32> to tensor<4x$xf32>
    %y = mpc.reshape %0 : tensor<4x$xf32> to tensor<$4xf32>)",
                         "tensor<$4xf32>"),
              0, 1);
  // Rows of 2 become columns: each new row would mix parts of several rows.
  EXPECT_EQ(
      followBody("%y = mpc.reshape %x : tensor<$x4xf32> to tensor<4x$xf32>",
                 "tensor<4x$xf32>")
          .outcome,
      Outcome::Mixed);
}

// As PyTorch indexes a mask, mask[batch, position].
TEST_F(RowIndependenceTest, TuplesWithTheRowsNumberGatherInRows) {
  auto gather = [&](const std::string &rows, const std::string &order) {
    return followBody(
        rows + R"(
    %r = mpc.reshape %i : tensor<$xi64> to tensor<$x1x1xi64>
    %rows = mpc.broadcast %r : tensor<$x1x1xi64> to tensor<$x4x1xi64>
    %k = mpc.constant dense<1> : tensor<$x4x1xi64>
    %t = mpc.concat )" +
            order +
            R"( axis(2) : (tensor<$x4x1xi64>, tensor<$x4x1xi64>) -> tensor<$x4x2xi64>
    %y = mpc.gather_nd %x, %t : (tensor<$x4xf32>, tensor<$x4x2xi64>) -> tensor<$x4xf32>)",
        "tensor<$x4xf32>");
  };
  const std::string numbers = "%i = mpc.iota axis(0) : tensor<$xi64>";
  expectPlace(gather(numbers, "%rows, %k"), 0, 1);
  expectMixed(gather(numbers, "%k, %rows"), "gathers from the row dimension");
  expectMixed(gather("%i = mpc.add %n, %n : (tensor<$xi64>, tensor<$xi64>) -> "
                     "tensor<$xi64>",
                     "%rows, %k"),
              "gathers from the row dimension");
  expectPlace(followBody(R"(
    %t = mpc.reshape %n : tensor<$xi64> to tensor<$x1xi64>
    %y = mpc.gather_nd %x, %t batch_dims(1) : (tensor<$x4xf32>, tensor<$x1xi64>) -> tensor<$xf32>)",
                         "tensor<$xf32>"),
              0, 1);
}

TEST_F(RowIndependenceTest, NumbersPerRowAreRows) {
  // Indices count from the first row.
  expectPlace(followBody(R"(
    %0 = mpc.iota axis(0) : tensor<$x4xf32>
    %y = mpc.add %x, %0 : (tensor<$x4xf32>, tensor<$x4xf32>) -> tensor<$x4xf32>)",
                         "tensor<$x4xf32>"),
              0, 1);
  expectPlace(followBody(R"(
    %t = mpc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %y = mpc.gather %t, %n axis(0) : (tensor<2x2xf32>, tensor<$xi64>) -> tensor<$x2xf32>)",
                         "tensor<$x2xf32>"),
              0, 1);
}

TEST_F(RowIndependenceTest, ResultsWithoutRows) {
  BatchIndependence rows = followBody(
      "%y = mpc.constant dense<2.0> : tensor<4xf32>", "tensor<4xf32>");
  EXPECT_EQ(rows.outcome, Outcome::Independent) << said;
  ASSERT_EQ(rows.results.size(), 1u);
  EXPECT_FALSE(rows.results[0]);
}

TEST_F(RowIndependenceTest, MixedRowsAreNamed) {
  expectMixed(
      followBody("%y = mpc.reduce_mean %x axes([0]) : tensor<$x4xf32> -> "
                 "tensor<4xf32>",
                 "tensor<4xf32>"),
      "'mpc.reduce_mean' reduces over the rows");
  expectMixed(followBody("%y = mpc.softmax %x axis(0) : tensor<$x4xf32>",
                         "tensor<$x4xf32>"),
              "'mpc.softmax' reduces over the rows");
  expectMixed(
      followBody("%y = mpc.matmul %x, %x transpose_rhs : "
                 "(tensor<$x4xf32>, tensor<$x4xf32>) -> tensor<$x$xf32>",
                 "tensor<$x$xf32>"),
      "'mpc.matmul' combines each row with other rows");
  expectMixed(followBody("%y = mpc.reverse %x axes([0]) : tensor<$x4xf32>",
                         "tensor<$x4xf32>"),
              "'mpc.reverse' operates along the row dimension");
  expectMixed(followBody("%y = mpc.slice %x [0, 0] [1, 4] : tensor<$x4xf32> to "
                         "tensor<1x4xf32>",
                         "tensor<1x4xf32>"),
              "'mpc.slice' slices the rows");
  expectMixed(followBody("%y = mpc.concat %x, %x axis(0) : (tensor<$x4xf32>, "
                         "tensor<$x4xf32>) -> tensor<$2x4xf32>",
                         "tensor<$2x4xf32>"),
              "'mpc.concat' operates along the row dimension");
}

// The mean over a batch by a sum and a constant, and a number of rows that is
// nothing but a constant.
TEST_F(RowIndependenceTest, ConstantsThatCountRows) {
  expectMixed(
      followBody(R"(
    %c = mpc.constant dense<$.0> : tensor<f32>
    %y = mpc.div %x, %c : (tensor<$x4xf32>, tensor<f32>) -> tensor<$x4xf32>)",
                 "tensor<$x4xf32>"),
      "'mpc.constant' contains values that depend on the number of rows");
  EXPECT_EQ(followBody("%y = mpc.slice %x [0, 0] [$, 2] : tensor<$x4xf32> to "
                       "tensor<$x2xf32>",
                       "tensor<$x2xf32>")
                .outcome,
            Outcome::Independent)
      << said;
}

TEST_F(RowIndependenceTest, OtherPrograms) {
  // An op more where there are eight rows.
  few = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {"
      "%0 = mpc.relu %x : tensor<3x4xf32> return %0 : tensor<3x4xf32> }",
      &context);
  many = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {"
      "%0 = mpc.relu %x : tensor<8x4xf32> %1 = mpc.neg %0 : tensor<8x4xf32>"
      "return %1 : tensor<8x4xf32> }",
      &context);
  ASSERT_TRUE(few && many);
  EXPECT_EQ(checkBatchIndependence(*few->getOps<func::FuncOp>().begin(),
                                   *many->getOps<func::FuncOp>().begin(), 3, 8,
                                   "batch")
                .outcome,
            Outcome::OtherProgram);
}
