//===- KernelTunerTests.cpp - tests of kernel autotuning ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With synthetic times, and a clock that advances at each measurement.
//
//===----------------------------------------------------------------------===//

#include "JIT/KernelTuner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>

using namespace mpc;

namespace {
/// Kernels whose schedules are integers, each a neighbour of the next, with a
/// time for each.
struct Landscape {
  std::vector<std::function<double(int)>> timeOf;
  std::vector<TunedKernel> kernels;
  double now = 0;
  int measured = 0;
  /// Fails from this measurement on.
  int broken = 1000;

  void add(int chosen, std::function<double(int)> time) {
    kernels.push_back(
        {"k" + std::to_string(kernels.size()), std::to_string(chosen), {}});
    timeOf.push_back(std::move(time));
  }

  Status tune(double seconds) {
    TunerCallbacks questions;
    questions.neighbours = [](size_t, const std::string &around) {
      int number = std::stoi(around);
      return std::vector<std::string>{std::to_string(number - 1),
                                      std::to_string(number + 1)};
    };
    questions.measure = [&](const std::vector<std::string> &schedules)
        -> Result<std::vector<double>> {
      if (++measured > broken)
        return Status(StatusCode::Internal, "k0", "does not run");
      ++now;
      std::vector<double> times;
      times.reserve(schedules.size());
      for (size_t i = 0; i < schedules.size(); ++i)
        times.push_back(timeOf[i](std::stoi(schedules[i])));
      return times;
    };
    questions.clock = [&] { return now; };
    return tuneKernels(kernels, questions, seconds);
  }
};
} // namespace

TEST(KernelTuner, ClimbsWithAllKernelsAtOnce) {
  Landscape landscape;
  landscape.add(10, [](int at) { return 10 + std::abs(at - 14); });
  landscape.add(3, [](int at) { return 100 + 5 * std::abs(at); });
  // The initial schedule is the optimum.
  landscape.add(0, [](int at) { return 1 + std::abs(at); });
  ASSERT_TRUE(landscape.tune(1000).ok());
  EXPECT_EQ(landscape.kernels[0].best, "14");
  EXPECT_EQ(landscape.kernels[0].chosenMs, 14);
  EXPECT_EQ(landscape.kernels[0].bestMs, 10);
  EXPECT_EQ(landscape.kernels[1].best, "0");
  EXPECT_EQ(landscape.kernels[2].best, "0");
  EXPECT_EQ(landscape.kernels[2].tried, 2u);
  // Five rounds of two and the best again, the first and six to confirm.
  EXPECT_LE(landscape.measured, 5 * 3 + 1 + 6);
}

// A speedup below the measurement error is not accepted.
TEST(KernelTuner, KeepsTheChoiceWhereNothingIsFasterForCertain) {
  Landscape landscape;
  landscape.add(5, [](int at) { return 100 - 0.5 * at; });
  ASSERT_TRUE(landscape.tune(7).ok());
  EXPECT_EQ(landscape.kernels[0].best, "5");
  EXPECT_EQ(landscape.kernels[0].bestMs, landscape.kernels[0].chosenMs);
}

// An outlier is detected when the initial and the best schedule alternate.
TEST(KernelTuner, DropsWhatWasLuck) {
  Landscape landscape;
  int calls = 0;
  landscape.add(5,
                [&](int at) { return at == 6 && ++calls == 1 ? 1.0 : 10.0; });
  ASSERT_TRUE(landscape.tune(1000).ok());
  EXPECT_EQ(landscape.kernels[0].best, "5");
}

TEST(KernelTuner, EndsInTime) {
  Landscape landscape;
  landscape.add(0, [](int at) { return std::exp(-at); });
  ASSERT_TRUE(landscape.tune(20).ok());
  EXPECT_LE(landscape.measured, 20 + 2 + 6);
  EXPECT_GE(std::stoi(landscape.kernels[0].best), 4);
  Landscape none;
  none.add(0, [](int at) { return std::exp(-at); });
  ASSERT_TRUE(none.tune(0).ok());
  EXPECT_EQ(none.kernels[0].best, "0");
  EXPECT_EQ(none.kernels[0].tried, 0u);
}

TEST(KernelTuner, NothingToTuneAndFailures) {
  Landscape empty;
  EXPECT_TRUE(empty.tune(10).ok());
  EXPECT_EQ(empty.measured, 0);
  Landscape broken;
  broken.add(0, [](int at) { return std::exp(-at); });
  broken.broken = 4;
  EXPECT_EQ(broken.tune(100).text(), "does not run");
}
