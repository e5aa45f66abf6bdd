//===- RangeRecorderTest.cpp - value ranges recorded from samples ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/RangeRecorder.h"

#include "mpc/Reference/Tensor.h"

#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mpc;

namespace {

TEST(RangeRecorderTest, KeepsEndsAndTheirSamples) {
  RangeRecorder recorder;
  recorder.add("x", {0.5, -3.0, 0.0}, 0);
  recorder.add("x", {-0.25, 2.0}, 1);
  recorder.add("y", {7.0}, 1);
  const RecordedRange &x = recorder.get().front().second;
  EXPECT_EQ(x.elements, 5);
  EXPECT_EQ(x.zeros, 1);
  EXPECT_EQ(x.least, 0.25);
  EXPECT_EQ(x.leastSample, 1);
  EXPECT_EQ(x.largest, 3.0);
  EXPECT_EQ(x.largestSample, 0);
  EXPECT_EQ(x.exponents, (std::map<int, int64_t>{{-2, 1}, {-1, 1}, {1, 2}}));
  EXPECT_EQ(recorder.get().back().first, "y");
}

TEST(RangeRecorderTest, NothingIsKnownOfZeros) {
  RecordedRange range;
  range.add({0.0, -0.0}, 3);
  range.add({}, 4);
  EXPECT_EQ(range.zeros, 2);
  EXPECT_EQ(range.leastSample, -1);
  EXPECT_EQ(range.largestSample, -1);
  EXPECT_TRUE(range.exponents.empty());
}

TEST(RangeRecorderTest, NamesTheFirstSampleThatIsNotFinite) {
  RecordedRange range;
  range.add({1.0}, 0);
  range.add({NAN, 2.0}, 1);
  range.add({-std::numeric_limits<double>::infinity()}, 2);
  EXPECT_EQ(range.notFinite, 2);
  EXPECT_EQ(range.notFiniteSample, 1);
  EXPECT_EQ(range.largest, 2.0);
  EXPECT_EQ(range.float16.overflowed, 0);
}

/// Underflow and overflow counts match the rounding of the formats at and next
/// to every boundary.
TEST(RangeRecorderTest, CountsWhatRoundingLoses) {
  mlir::MLIRContext context;
  struct Format {
    mlir::Type type;
    FormatLimits limits;
    RecordedRange::Losses RecordedRange::*losses;
  };
  for (const Format &format :
       {Format{mlir::Float16Type::get(&context), kFloat16Limits,
               &RecordedRange::float16},
        Format{mlir::BFloat16Type::get(&context), kBFloat16Limits,
               &RecordedRange::bfloat16}})
    for (double border :
         {format.limits.overflow, format.limits.normal, format.limits.flush})
      for (double value : {std::nextafter(border, 0.0), border,
                           std::nextafter(border, INFINITY)}) {
        RecordedRange range;
        range.add({-value}, 0);
        double rounded = reference::roundTo(value, format.type);
        const RecordedRange::Losses &losses = range.*format.losses;
        EXPECT_EQ(losses.overflowed, std::isinf(rounded)) << value;
        EXPECT_EQ(losses.flushed, rounded == 0) << value;
        EXPECT_EQ(losses.subnormal,
                  rounded != 0 && value < format.limits.normal)
            << value;
      }
}

} // namespace
