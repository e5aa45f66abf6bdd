//===- TermMagnitudesTests.cpp - scale of each element's rounding ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/TermMagnitudes.h"

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

class TermMagnitudesTest : public ReferenceTest {
protected:
  /// Magnitudes of the results of the function `@f`.
  SmallVector<Tensor> analyse(StringRef text, ArrayRef<Tensor> arguments,
                              double least = 0, bool absoluteSigmoids = false) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << messages;
    auto function = module->lookupSymbol<func::FuncOp>("f");
    TermMagnitudes terms(function, arguments, {}, absoluteSigmoids);
    InterpretOptions options;
    options.observer = [&](Operation *op, ArrayRef<Tensor> results) {
      terms.observe(op, results);
    };
    EXPECT_TRUE(succeeded(interpret(function, arguments, options)));
    FailureOr<SmallVector<Tensor>> found = terms.results(least);
    EXPECT_TRUE(succeeded(found)) << messages;
    return succeeded(found) ? std::move(*found) : SmallVector<Tensor>();
  }
  void expectNear(const Tensor &found, ArrayRef<double> wanted,
                  double relative = 1e-9) {
    ASSERT_EQ(found.size(), int64_t(wanted.size()));
    for (auto [a, b] : llvm::zip_equal(found.floats(), wanted))
      EXPECT_NEAR(a, b, relative * std::fabs(b));
  }
};

// 1000 - 1000 + 1 has the magnitude of the cancelled terms.
TEST_F(TermMagnitudesTest, ProductsHaveTheRootOfTheirSquaredTerms) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<1x3xf32>, %w: tensor<3x2xf32>) -> tensor<1x2xf32> {
        %0 = mpc.matmul %x, %w : (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
        return %0 : tensor<1x2xf32>
      })mlir",
      {floats("tensor<1x3xf32>", {1000, 1000, 1}),
       floats("tensor<3x2xf32>", {1, 1, -1, 1, 1, 1})});
  // All terms of the second have one sign: the sum is larger.
  expectNear(found[0], {std::sqrt(2e6 + 1), 2001});
}

TEST_F(TermMagnitudesTest, SigmoidsOfOtherSystemsHaveAbsoluteErrors) {
  StringRef text = R"mlir(func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = mpc.sigmoid %x : tensor<2xf32>
        return %0 : tensor<2xf32>
      })mlir";
  double y = 1 / (1 + std::exp(30.0));
  Tensor x = floats("tensor<2xf32>", {-30, 30});
  SmallVector<Tensor> own = analyse(text, {x}),
                      other = analyse(text, {x}, 0, /*absoluteSigmoids=*/true);
  EXPECT_LT(own[0].floats()[0], 40 * y);
  expectNear(other[0], {0.5, 1});
}

TEST_F(TermMagnitudesTest, MasksCountWhereTheyAreAdded) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %m: tensor<2xf32>)
          -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
        %0 = mpc.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
        %1 = mpc.add %0, %m : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
        %2 = mpc.softmax %1 axis(1) : tensor<2x2xf32>
        %3 = mpc.log_softmax %1 axis(1) : tensor<2x2xf32>
        return %1, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
      })mlir",
      {floats("tensor<2x2xf32>", {3, 4, 5, 12}),
       floats("tensor<2x2xf32>", {1, 1, -1, 1}),
       floats("tensor<2xf32>", {0, -1e9})});
  expectNear(found[0], {5, 1e9, 13, 1e9}, 1e-6);
  // The probability of a masked class is 0, and so are its terms.
  EXPECT_LE(found[1].floats()[0], 2);
  EXPECT_EQ(found[1].floats()[1], 0);
  // Its logarithm is as large as the mask, that of the other is not.
  EXPECT_LE(found[2].floats()[0], 20);
  EXPECT_GE(found[2].floats()[1], 0.9e9);
}

TEST_F(TermMagnitudesTest, CancelledElementsKeepTheirTermsThroughMovement) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<2x1xf32>, %y: tensor<2x1xf32>) -> tensor<1x2xf32> {
        %0 = mpc.sub %x, %y : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
        %1 = mpc.relu %0 : tensor<2x1xf32>
        %2 = mpc.transpose %1 [1, 0] : tensor<2x1xf32> to tensor<1x2xf32>
        return %2 : tensor<1x2xf32>
      })mlir",
      {floats("tensor<2x1xf32>", {300, 3}),
       floats("tensor<2x1xf32>", {301, 4})});
  // Rounding may make the first positive, but not the second.
  EXPECT_GT(found[0].floats()[0], 10);
  EXPECT_EQ(found[0].floats()[1], 0);
}

// A gradient that cancels is squared: its terms are squared, too.
TEST_F(TermMagnitudesTest, OptimizersAreElementwise) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<2xf32>, %y: tensor<2xf32>, %s: tensor<2xf32>, %t: tensor<i64>, %lr: tensor<f64>)
          -> tensor<2xf32> {
        %g = mpc.sub %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %0:3 = mpc.optimizer.adam %s, %g states(%s, %s) step(%t) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f64>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
        return %0#2 : tensor<2xf32>
      })mlir",
      {floats("tensor<2xf32>", {3, 1}), floats("tensor<2xf32>", {3, 1}),
       floats("tensor<2xf32>", {0, 0}), ints("tensor<i64>", {1}),
       floats("tensor<f64>", {0.1})});
  // (1 - beta2) (t(g) / 64)^2 over 1 / 64.
  expectNear(found[0], {0.001 * 18 / 64, 0.001 * 2 / 64});
}

// Elementwise ops of many elements are analysed block by block.
TEST_F(TermMagnitudesTest, EveryBlockOfALargeOpHasItsOwnTerms) {
  constexpr int64_t kCount = 40000;
  std::vector<double> x(kCount), differences(kCount), sums(2 * kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = double(i) - 7;
    // Never less than the element itself.
    double element = std::fabs(x[i] - 2);
    differences[i] = std::max(std::hypot(x[i], 2), element);
    sums[i] = std::max(std::sqrt(2) * differences[i], 2 * element);
    sums[kCount + i] = differences[i];
  }
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<40000xf32>, %c: tensor<f32>)
          -> (tensor<40000xf32>, tensor<80000xf32>) {
        %0 = mpc.sub %x, %c : (tensor<40000xf32>, tensor<f32>) -> tensor<40000xf32>
        %1 = mpc.add %0, %0 : (tensor<40000xf32>, tensor<40000xf32>) -> tensor<40000xf32>
        %2 = mpc.concat %1, %0 axis(0) : (tensor<40000xf32>, tensor<40000xf32>) -> tensor<80000xf32>
        return %0, %2 : tensor<40000xf32>, tensor<80000xf32>
      })mlir",
      {floats("tensor<40000xf32>", x), floats("tensor<f32>", {2})});
  expectNear(found[0], differences);
  expectNear(found[1], sums);
}

TEST_F(TermMagnitudesTest, StartsAfreshAtContractions) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<1x2xf32>, %y: tensor<1x2xf32>, %w: tensor<2x1xf32>) -> tensor<1x1xf32> {
        %0 = mpc.sub %x, %y : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
        %1 = mpc.matmul %0, %w : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
        return %1 : tensor<1x1xf32>
      })mlir",
      {floats("tensor<1x2xf32>", {103, 104}),
       floats("tensor<1x2xf32>", {100, 100}),
       floats("tensor<2x1xf32>", {1, -1})});
  expectNear(found[0], {5});
}

// The least magnitude is no scale of an element without terms.
TEST_F(TermMagnitudesTest, ZerosStayZeros) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
        %0 = mpc.relu %x : tensor<3xf32>
        return %0 : tensor<3xf32>
      })mlir",
      {floats("tensor<3xf32>", {-1, 1e-9, 1})}, /*least=*/0x1p-14);
  expectNear(found[0], {0, 0x1p-14, 1});
}

// An element within rounding of the threshold may take either branch, one far
// from it and exact positions may not.
TEST_F(TermMagnitudesTest, BranchesThatMayFlipHaveTheTermsOfBoth) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<3xf32>, %y: tensor<3xf32>)
          -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
        %limit = mpc.constant dense<1.5> : tensor<f32>
        %zero = mpc.constant dense<0.0> : tensor<f32>
        %far = mpc.constant dense<-1.0e9> : tensor<f32>
        %0 = mpc.compare gt %x, %limit : (tensor<3xf32>, tensor<f32>) -> tensor<3xi1>
        %1 = mpc.select %0, %y, %zero : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        %2 = mpc.cast %0 : tensor<3xi1> to tensor<3xf32>
        %3 = mpc.mul %2, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %4 = mpc.not %0 : tensor<3xi1>
        %5 = mpc.reshape %4 : tensor<3xi1> to tensor<1x3xi1>
        %6 = mpc.reshape %5 : tensor<1x3xi1> to tensor<3xi1>
        %7 = mpc.select %6, %zero, %y : (tensor<3xi1>, tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
        %8 = mpc.iota axis(0) : tensor<3xf32>
        %9 = mpc.add %8, %8 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        %10 = mpc.compare lt %8, %9 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
        %11 = mpc.select %10, %y, %far : (tensor<3xi1>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        return %1, %3, %7, %11 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
      })mlir",
      {floats("tensor<3xf32>", {1.5 * (1 - 0x1p-10), 1.2, 2}),
       floats("tensor<3xf32>", {3, 5, 7})});
  for (const Tensor &result : ArrayRef(found).drop_back()) {
    // A change by 3 for a relative error of 2^-9.
    EXPECT_GE(result.floats()[0], 3 * 512);
    EXPECT_LE(result.floats()[0], 3 * 600);
    EXPECT_EQ(result.floats()[1], 0);
    EXPECT_LE(result.floats()[2], 10);
  }
  expectNear(found[3], {1e9, 5, 7});
}

// all_finite returns a condition and a record.
TEST_F(TermMagnitudesTest, ConditionsBesideOtherResultsHaveNoTerms) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<2xf32>) -> (tensor<i1>, tensor<2xi64>) {
        %0:2 = mpc.all_finite %x names(["x"]) : (tensor<2xf32>) -> (tensor<i1>, tensor<2xi64>)
        return %0#0, %0#1 : tensor<i1>, tensor<2xi64>
      })mlir",
      {floats("tensor<2xf32>", {1, 2})});
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(TermMagnitudesTest, SumsAndNormsMixTheirOperands) {
  SmallVector<Tensor> found = analyse(
      R"mlir(func.func @f(%x: tensor<2x64xf32>, %s: tensor<64xf32>) -> (tensor<2xf32>, tensor<2x64xf32>) {
        %0 = mpc.reduce_sum %x axes([1]) : tensor<2x64xf32> -> tensor<2xf32>
        %1 = mpc.layer_norm %x, %s axis(1) epsilon(1.0e-5)
           : (tensor<2x64xf32>, tensor<64xf32>) -> tensor<2x64xf32>
        return %0, %1 : tensor<2xf32>, tensor<2x64xf32>
      })mlir",
      {[&] {
         Tensor x(type("tensor<2x64xf32>"));
         for (int i = 0; i < 64; ++i) {
           x.floats()[i] = i % 2 ? 100 : -100;
           x.floats()[64 + i] = 1000 + i % 2;
         }
         return x;
       }(),
       floats("tensor<64xf32>", std::vector<double>(64, 1))});
  // 64 terms of 100 that cancel: near 800.
  EXPECT_GT(found[0].floats()[0], 200);
  EXPECT_LT(found[0].floats()[0], 3200);
  // A mean of 1000 over a deviation of 0.5.
  EXPECT_GT(found[1].floats()[64], 300);
  EXPECT_LT(found[1].floats()[0], 10);
}

TEST_F(TermMagnitudesTest, SmallestNormalIsThatOfTheNarrowestType) {
  auto smallest = [&](StringRef element) {
    module = parseSourceString<ModuleOp>(
        ("func.func @f(%x: tensor<2xf32>) { %0 = mpc.cast %x : tensor<2xf32> "
         "to tensor<2x" +
         element + "> return }")
            .str(),
        &context);
    EXPECT_TRUE(module) << messages;
    return smallestNormal(module->lookupSymbol<func::FuncOp>("f"));
  };
  EXPECT_EQ(smallest("f16"), 0x1p-14);
  EXPECT_EQ(smallest("bf16"), 0x1p-126);
  EXPECT_EQ(smallest("f64"), 0x1p-126);
}

} // namespace
