//===- CompareTests.cpp - comparison of results ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/Compare.h"

#include "ReferenceTest.h"

#include <random>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using CompareTest = ReferenceTest;

TEST_F(CompareTest, ToleranceFollowsDeclaredErrorAndReductionLength) {
  Tensor reference = floats("tensor<2xf32>", {3, 4});
  Tensor declared = floats("tensor<2xf32>", {3, 4.1});
  double magnitude = std::sqrt(12.5), declaredError = 0.1 / std::sqrt(2.0);
  double tolerance =
      2 * declaredError / magnitude + 4 * std::sqrt(64.0) * 0x1p-24;
  OutputError error = compareOutput(declared, reference, declared, 64, true);
  EXPECT_TRUE(error.ok);
  EXPECT_NEAR(error.tolerance, tolerance, 1e-12);
  EXPECT_NEAR(error.rmsRelativeError, declaredError / magnitude, 1e-12);
  EXPECT_NEAR(error.maxAbsError, 0.1, 1e-12);
  // Slightly more than twice the declared error fails, slightly less passes.
  EXPECT_FALSE(compareOutput(floats("tensor<2xf32>", {3, 4.201}), reference,
                             declared, 1, true)
                   .ok);
  EXPECT_TRUE(compareOutput(floats("tensor<2xf32>", {3, 4.199}), reference,
                            declared, 1, true)
                  .ok);
}

TEST_F(CompareTest, ExactModelStillGetsTheRoundingTerm) {
  Tensor reference = floats("tensor<2xf32>", {1, 1});
  Tensor near = floats("tensor<2xf32>", {1, 1 + 0x1p-24}),
         far = floats("tensor<2xf32>", {1, 1.001});
  EXPECT_TRUE(compareOutput(near, reference, reference, 1, true).ok);
  EXPECT_FALSE(compareOutput(far, reference, reference, 1, true).ok);
}

TEST_F(CompareTest, ZeroReferenceHasAnAbsoluteTolerance) {
  Tensor zeros = floats("tensor<2xf32>", {0, 0});
  EXPECT_TRUE(
      compareOutput(floats("tensor<2xf32>", {1e-8, 0}), zeros, zeros, 1, true)
          .ok);
  EXPECT_FALSE(
      compareOutput(floats("tensor<2xf32>", {1e-3, 0}), zeros, zeros, 1, true)
          .ok);
}

// Logits with one class masked: compared to -1e9, float32 explains an error of
// 200 of the whole, but of no element that is not masked.
TEST_F(CompareTest, LargeElementsHideNothing) {
  Tensor reference(type("tensor<8x10xf32>")),
      actual = reference, wrong = reference, magnitudes = reference;
  for (int64_t i = 0; i < 80; ++i) {
    bool isMasked = i % 10 == 7;
    reference.floats()[i] = isMasked ? -1e9 : double(i % 10) - 4;
    magnitudes.floats()[i] = isMasked ? 1e9 : 4;
    actual.floats()[i] = reference.floats()[i] * (1 + 0x1p-24);
    wrong.floats()[i] = actual.floats()[i] + (isMasked ? 0 : 100);
  }
  EXPECT_TRUE(
      compareOutput(actual, reference, reference, 16, true, &magnitudes).ok);
  OutputError error =
      compareOutput(wrong, reference, reference, 16, true, &magnitudes);
  EXPECT_LE(error.rmsRelativeError, error.tolerance);
  EXPECT_GT(error.componentwiseError, 10);
  EXPECT_FALSE(error.ok);
  EXPECT_NE(describeComponentError(error, {8, 10}).find("is off by 100"),
            std::string::npos);
  EXPECT_EQ(describeComponentError(error, {8, 10}).find("element ["), 0u);
  // If only the values are known, their magnitude classes show it as well.
  Tensor classes = clusterMagnitudes(reference);
  EXPECT_FALSE(
      compareOutput(wrong, reference, reference, 16, true, &classes).ok);
}

// An element with cancellation has the error of its terms, not of the result.
TEST_F(CompareTest, CancelledElementsCountAgainstTheirTerms) {
  Tensor reference = floats("tensor<4xf32>", {1000, -800, 900, 1e-6}),
         actual = floats("tensor<4xf32>", {1000, -800, 900, 1e-6 + 5e-5}),
         terms = floats("tensor<4xf32>", {1000, 800, 900, 950}),
         own = floats("tensor<4xf32>", {1000, 800, 900, 1e-6});
  EXPECT_TRUE(compareOutput(actual, reference, reference, 1, true, &terms).ok);
  EXPECT_FALSE(compareOutput(actual, reference, reference, 1, true, &own).ok);
}

TEST_F(CompareTest, ElementsWithoutTermsCountAgainstSmallOnes) {
  Tensor reference = floats("tensor<4xf32>", {0, 2, 4, 1e9}),
         terms = floats("tensor<4xf32>", {0, 2, 4, 1e9});
  EXPECT_TRUE(compareOutput(floats("tensor<4xf32>", {1e-8, 2, 4, 1e9}),
                            reference, reference, 1, true, &terms)
                  .ok);
  EXPECT_FALSE(compareOutput(floats("tensor<4xf32>", {1e-3, 2, 4, 1e9}),
                             reference, reference, 1, true, &terms)
                   .ok);
}

// Twice a sample of many errors is far beyond chance, twice one error is not.
TEST_F(CompareTest, FewErrorsAreAPoorEstimate) {
  auto tolerance = [&](int64_t count) {
    Tensor reference(
        RankedTensorType::get({count}, Float32Type::get(&context)));
    llvm::fill(reference.floats(), 1);
    Tensor declared = reference;
    for (int64_t i = 0; i < count; ++i)
      declared.floats()[i] += i % 2 ? 0.01 : -0.01;
    return compareOutput(declared, reference, declared, 1, true, &reference)
        .componentwiseTolerance;
  };
  EXPECT_NEAR(tolerance(1000), 0.02, 1e-5);
  EXPECT_NEAR(tolerance(16), 0.01 * std::exp(4.9 / 4), 1e-5);
  EXPECT_NEAR(tolerance(1), 0.16, 1e-5);
}

/// Returns `values` with independent relative errors of deviation 0.004.
Tensor withErrors(Tensor values, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> error(0, 0.004);
  for (double &value : values.floats())
    value *= 1 + error(generator);
  return values;
}

// Of 200,000 elements an rms does not show one that is wrong by all of its
// terms.
TEST_F(CompareTest, OneWrongElementAmongManyFails) {
  Tensor reference(type("tensor<200000xf32>"));
  llvm::fill(reference.floats(), 2);
  Tensor declared = withErrors(reference, 1), actual = withErrors(reference, 2);
  OutputError error =
      compareOutput(actual, reference, declared, 1, true, &reference);
  EXPECT_TRUE(error.ok);
  EXPECT_LT(error.largestTolerance, 0.5);
  actual.floats()[1234] = 0;
  error = compareOutput(actual, reference, declared, 1, true, &reference);
  EXPECT_LE(error.componentwiseError, error.componentwiseTolerance);
  EXPECT_FALSE(error.ok);
  EXPECT_EQ(
      describeComponentError(error, reference.getShape())
          .find("element [1234] is off by 2 where the magnitude of its terms "
                "is 2; relative to its terms, the error is 1.00e+00"),
      0u);
}

// The largest errors of two samples of one size agree, also in a magnitude
// class of small and large elements.
TEST_F(CompareTest, LargestErrorsOfTwoSamplesPass) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Tensor reference(type("tensor<10000xf32>"));
    for (auto [i, value] : llvm::enumerate(reference.floats()))
      value = i % 1000 == 0 ? 900 : 1;
    Tensor classes = clusterMagnitudes(reference);
    OutputError error =
        compareOutput(withErrors(reference, 2 * seed), reference,
                      withErrors(reference, 2 * seed + 1), 1, true, &classes);
    EXPECT_LE(error.largestError, error.largestTolerance / 2);
  }
}

// A branch taken only in 16 bits is compared with what it computes there. It
// permits nothing in the rms of other elements.
TEST_F(CompareTest, FlippedElementsDoNotWidenTheTolerance) {
  Tensor reference(type("tensor<1000xf32>"));
  llvm::fill(reference.floats(), 1);
  reference.floats()[7] = 0;
  Tensor declared = withErrors(reference, 1), actual = withErrors(reference, 2);
  declared.floats()[7] = actual.floats()[7] = 1e6;
  OutputError error =
      compareOutput(actual, reference, declared, 1, true, &reference);
  EXPECT_LE(error.componentwiseError, error.componentwiseTolerance);
  EXPECT_LE(error.largestError, error.largestTolerance);
  EXPECT_LT(error.componentwiseTolerance, 1);
  EXPECT_EQ(error.flips, 1);
  llvm::fill(actual.floats(), 50);
  error = compareOutput(actual, reference, declared, 1, true, &reference);
  EXPECT_GT(error.componentwiseError, error.componentwiseTolerance);
}

// Elements in which a decision may fall otherwise are permitted twice the
// change of the one in which it does, and no more than one sample of an error
// is.
TEST_F(CompareTest, FlipsPermitChangesOfTheirSize) {
  Tensor reference(type("tensor<100000xf32>"));
  llvm::fill(reference.floats(), 1);
  auto toleranceFor = [&](double changed) {
    Tensor declared = withErrors(reference, 1);
    declared.floats()[7] = changed;
    return compareOutput(withErrors(reference, 2), reference, declared, 1, true,
                         &reference)
        .largestTolerance;
  };
  EXPECT_NEAR(toleranceFor(2.5), 3, 1e-12);
  EXPECT_EQ(toleranceFor(1e6), 16);
  Tensor changed = reference;
  changed.floats()[7] = 2.5;
  EXPECT_NEAR(measureDeclaredError(changed, reference, reference).largest, 1.5,
              1e-12);
}

// A thousand elements with one large error are one sample of this error.
TEST_F(CompareTest, ElementsThatMakeTheErrorAreCounted) {
  Tensor reference(type("tensor<1000xf32>")), even(type("tensor<1000xf32>")),
      single(type("tensor<1000xf32>"));
  llvm::fill(reference.floats(), 1);
  llvm::fill(even.floats(), 1 + 1e-3);
  llvm::fill(single.floats(), 1 + 1e-6);
  single.floats()[7] = 1 + 1e-1;
  OutputError ofAll = compareOutput(even, reference, even, 1, true),
              ofOne = compareOutput(single, reference, single, 1, true);
  EXPECT_EQ(ofAll.effective, 1000);
  EXPECT_NEAR(ofOne.effective, 3, 0.01);
  ErrorMeasures deviation{ofOne.rmsRelativeError, 0};
  widenTolerance(ofAll, deviation, 1);
  widenTolerance(ofOne, deviation, 1);
  EXPECT_NEAR(ofAll.tolerance / deviation.normwise, 2, 0.01);
  EXPECT_NEAR(ofOne.tolerance / deviation.normwise, 4.84, 0.01);
}

TEST_F(CompareTest, OutputsWithoutAGapAreOneClass) {
  Tensor values = floats("tensor<5xf32>", {3, -4, 0, 1e-3, kInf});
  double rms = std::sqrt((9 + 16 + 1e-6) / 4);
  Tensor classes = clusterMagnitudes(values);
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(classes.floats()[i], rms, 1e-12);
  Tensor near = floats("tensor<5xf32>", {3.1, -4, 0, 1e-3, kInf});
  EXPECT_NEAR(measureError(near, values, classes).componentwise,
              rmsRelativeError(near, values), 1e-12);
  Tensor parted =
      clusterMagnitudes(floats("tensor<5xf32>", {3, -4, 1e7, 0, -2e7}));
  EXPECT_NEAR(parted.floats()[0], std::sqrt(25.0 / 3), 1e-12);
  EXPECT_NEAR(parted.floats()[4], std::sqrt(2.5e14), 1e-3);
  EXPECT_EQ(clusterMagnitudes(floats("tensor<1xf32>", {0})).floats()[0], 1);
}

TEST_F(CompareTest, ValuesThatLeaveTheRangeNeverPass) {
  Tensor reference = floats("tensor<2x2xf32>", {1, 2, 3, 1e39});
  Tensor declared = floats("tensor<2x2xf32>", {1, 2, kNan, kInf});
  // That the declared types overflow as well explains it and excuses nothing.
  OutputError error = compareOutput(declared, reference, declared, 1, true);
  EXPECT_FALSE(error.ok);
  EXPECT_EQ(error.overflows, 2);
  EXPECT_EQ(error.mismatches, 2);
  EXPECT_EQ(error.rmsRelativeError, kInf);
  EXPECT_EQ(error.maxAbsError, kInf);
  EXPECT_EQ(describeFinitenessError(error, reference.getShape()),
            "2 of 4 elements are not finite where the reference is, first at "
            "[1, 0]");
  Tensor finite = floats("tensor<2x2xf32>", {1, 2, 3, 4});
  EXPECT_EQ(
      describeFinitenessError(compareOutput(finite, finite, finite, 1, true),
                              finite.getShape()),
      "");
}

TEST_F(CompareTest, NonFiniteReferencesMustBeMetInKind) {
  Tensor reference = floats("tensor<3xf32>", {1, kNan, kInf});
  EXPECT_TRUE(compareOutput(reference, reference, reference, 1, true).ok);
  for (double wrong : {0.0, kInf, -kInf}) {
    OutputError error = compareOutput(floats("tensor<3xf32>", {1, wrong, kInf}),
                                      reference, reference, 1, true);
    EXPECT_FALSE(error.ok) << wrong;
    EXPECT_EQ(error.overflows, 0);
    EXPECT_EQ(describeFinitenessError(error, reference.getShape()),
              "1 of 3 elements differ from a NaN or infinity of the reference, "
              "first at [1]");
  }
  for (double wrong : {0.0, -kInf, kNan}) {
    Tensor actual = floats("tensor<3xf32>", {1, kNan, wrong});
    // Not even if the declared types are wrong in the same way.
    EXPECT_FALSE(compareOutput(actual, reference, actual, 1, true).ok) << wrong;
  }
}

TEST_F(CompareTest, IntegerMismatchesAreFatalOnlyOnRequest) {
  Tensor a = ints("tensor<3xi64>", {1, 2, 3}),
         b = ints("tensor<3xi64>", {1, 5, 3});
  OutputError error = compareOutput(a, b, b, 1, true);
  EXPECT_EQ(error.mismatches, 1);
  EXPECT_EQ(error.maxAbsError, 3);
  EXPECT_FALSE(error.ok);
  EXPECT_TRUE(compareOutput(a, b, b, 1, false).ok);
}

// A few near ties may fall otherwise without a prediction, many may not.
TEST_F(CompareTest, IntegersMayDifferAsOftenAsPredicted) {
  OutputError error;
  auto isWithin = [&](int64_t mismatches, int64_t predicted) {
    error.mismatches = mismatches;
    boundMismatches(error, predicted);
    return error.ok;
  };
  EXPECT_TRUE(isWithin(16, 0));
  EXPECT_FALSE(isWithin(17, 0));
  EXPECT_TRUE(isWithin(2300, 1000));
  EXPECT_FALSE(isWithin(2400, 1000));
}

TEST_F(CompareTest, IntegersThatDifferInTheDeclaredModeAreCounted) {
  Tensor reference = ints("tensor<4xi64>", {1, 2, 3, 4}),
         declared = ints("tensor<4xi64>", {1, 5, 6, 4}),
         actual = ints("tensor<4xi64>", {1, 5, 3, 4});
  OutputError error = compareOutput(actual, reference, declared, 1, false);
  EXPECT_EQ(error.mismatches, 1);
  EXPECT_EQ(error.storageMismatches, 2);
}

TEST_F(CompareTest, ResultsThatNothingNarrowLeadsToAreNotRounded) {
  module = parseSourceString<ModuleOp>(R"mlir(
    func.func @f(%x: tensor<8x8xf32>) -> (tensor<8xi64>, tensor<8xi64>, tensor<8xi64>) {
      %0 = mpc.cast %x : tensor<8x8xf32> to tensor<8x8xbf16>
      %1 = mpc.matmul %0, %0 : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xf32>
      %2 = mpc.argmax %1 axis(1) : tensor<8x8xf32> -> tensor<8xi64>
      %3 = mpc.argmax %x axis(1) : tensor<8x8xf32> -> tensor<8xi64>
      %4 = mpc.matmul %x, %x compute(tf32) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %5 = mpc.argmax %4 axis(1) : tensor<8x8xf32> -> tensor<8xi64>
      return %2, %3, %5 : tensor<8xi64>, tensor<8xi64>, tensor<8xi64>
    })mlir",
                                       &context);
  ASSERT_TRUE(module) << messages;
  EXPECT_EQ(resultsWithRounding(module->lookupSymbol<func::FuncOp>("f")),
            (SmallVector<bool>{true, false, true}));
}

TEST_F(CompareTest, ShapesMustAgree) {
  Tensor a = floats("tensor<2xf32>", {1, 2}),
         b = floats("tensor<2x1xf32>", {1, 2});
  OutputError error = compareOutput(a, b, b, 1, false);
  EXPECT_FALSE(error.ok);
  EXPECT_EQ(error.mismatches, 2);
}

TEST_F(CompareTest, RmsRelativeError) {
  EXPECT_DOUBLE_EQ(rmsRelativeError(floats("tensor<2xf32>", {3, 5}),
                                    floats("tensor<2xf32>", {3, 4})),
                   0.2);
  EXPECT_EQ(rmsRelativeError(floats("tensor<1xf32>", {kNan}),
                             floats("tensor<1xf32>", {1})),
            kInf);
}

TEST_F(CompareTest, LongestReductionLooksIntoFusionsAndAttention) {
  module = parseSourceString<ModuleOp>(R"mlir(
    func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x3xf32>, %q: tensor<1x4x5xf32>,
                 %k: tensor<1x20x5xf32>) -> tensor<2x3xf32> {
      %0 = mpc.attention %q, %k, %k scale(1.0)
           : (tensor<1x4x5xf32>, tensor<1x20x5xf32>, tensor<1x20x5xf32>) -> tensor<1x4x5xf32>
      %1 = mpc.matmul %x, %w : (tensor<2x8xf32>, tensor<8x3xf32>) -> tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    })mlir",
                                       &context);
  ASSERT_TRUE(module) << messages;
  EXPECT_EQ(longestReduction(module->lookupSymbol<func::FuncOp>("f")), 20);
}

TEST_F(CompareTest, LongestReductionCountsTrainingOps) {
  auto longestOf = [&](const std::string &arguments, const std::string &op) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + op + "\n  return\n}", &context);
    EXPECT_TRUE(module) << messages;
    return module ? longestReduction(module->lookupSymbol<func::FuncOp>("f"))
                  : 0;
  };
  // The mean runs over 6 elements, the norm over 6 + 4, a channel's statistics
  // over 8, the filter's gradient over 2 x 4 positions.
  EXPECT_EQ(longestOf("%x: tensor<2x3xf32>",
                      "%0 = mpc.huber %x, %x : (tensor<2x3xf32>, "
                      "tensor<2x3xf32>) -> tensor<f32>"),
            6);
  EXPECT_EQ(longestOf("%x: tensor<2x3xf32>, %y: tensor<4xf16>",
                      "%0 = mpc.global_norm %x, %y : (tensor<2x3xf32>, "
                      "tensor<4xf16>) -> tensor<f32>"),
            10);
  EXPECT_EQ(longestOf("%x: tensor<2x3x4xf32>, %c: tensor<3xf32>",
                      "%0:3 = mpc.batch_norm_training %x, %c, %c, %c, %c "
                      "epsilon(0.1) momentum(0.1) : (tensor<2x3x4xf32>, "
                      "tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, "
                      "tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, "
                      "tensor<3xf32>)"),
            8);
  EXPECT_EQ(longestOf("%x: tensor<2x3x4xf32>, %g: tensor<2x5x4xf32>",
                      "%0 = mpc.conv_filter_gradient %x, %g strides([1]) "
                      "pad([0], [0]) dilations([1]) : (tensor<2x3x4xf32>, "
                      "tensor<2x5x4xf32>) -> tensor<5x3x1xf32>"),
            8);
  EXPECT_EQ(longestOf("%q: tensor<1x3x4xf32>, %k: tensor<1x2x4xf32>, %v: "
                      "tensor<1x2x9xf32>, %g: tensor<1x3x9xf32>",
                      "%0:3 = mpc.attention_gradient %q, %k, %v, %g scale(1.0) "
                      ": (tensor<1x3x4xf32>, tensor<1x2x4xf32>, "
                      "tensor<1x2x9xf32>, tensor<1x3x9xf32>) -> "
                      "(tensor<1x3x4xf32>, tensor<1x2x4xf32>, "
                      "tensor<1x2x9xf32>)"),
            9);
}

} // namespace
