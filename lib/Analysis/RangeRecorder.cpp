//===- RangeRecorder.cpp - value ranges measured over samples -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/RangeRecorder.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <cmath>

using namespace mpc;

static void count(RecordedRange::Losses &losses, double magnitude,
                  const FormatLimits &limits) {
  if (magnitude >= limits.overflow)
    ++losses.overflowed;
  else if (magnitude <= limits.flush)
    ++losses.flushed;
  else if (magnitude < limits.normal)
    ++losses.subnormal;
}

void RecordedRange::add(llvm::ArrayRef<double> values, int64_t sample) {
  elements += values.size();
  // Histogram by exponent, from that of the smallest double.
  constexpr int kLeast = -1074, kMost = 1023;
  std::array<int64_t, kMost - kLeast + 1> counts{};
  for (double value : values) {
    double magnitude = std::fabs(value);
    if (!std::isfinite(value)) {
      if (notFinite++ == 0)
        notFiniteSample = sample;
      continue;
    }
    if (magnitude == 0) {
      ++zeros;
      continue;
    }
    if (leastSample < 0 || magnitude < least) {
      least = magnitude;
      leastSample = sample;
    }
    if (magnitude > largest) {
      largest = magnitude;
      largestSample = sample;
    }
    ++counts[std::ilogb(magnitude) - kLeast];
    count(float16, magnitude, kFloat16Limits);
    count(bfloat16, magnitude, kBFloat16Limits);
  }
  for (auto [index, number] : llvm::enumerate(counts))
    if (number)
      exponents[int(index) + kLeast] += number;
}
