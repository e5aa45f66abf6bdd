//===- WeightRounding.cpp - weights as a policy stores them ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/WeightRounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace mpc;

namespace {

/// The integers of a format.
struct Levels {
  Levels(const WeightFormat &format, int bits) {
    int64_t count = format.type == WeightType::Int8 ? 256 : 16;
    low = format.zeroPoint ? 0 : -count / 2;
    high = low + count - 1;
    hasZero = format.zeroPoint;
    // A scale with so many bits times an integer fits; those of groups are
    // stored as bf16.
    significantBits = format.type == WeightType::Int8 ? 16 : 8;
    int64_t furthest = hasZero ? count - 1 : count / 2 - 1;
    significantBits = std::min(significantBits,
                               bits - int(std::bit_width(uint64_t(furthest))));
  }

  int64_t low, high;
  bool hasZero;
  int significantBits;
};

} // namespace

/// `value` with so many significant bits: the nearest, or the next above.
static double withBits(double value, int bits, bool isLeast) {
  int exponent;
  double mantissa = std::ldexp(std::frexp(value, &exponent), bits);
  return std::ldexp(isLeast ? std::ceil(mantissa) : std::nearbyint(mantissa),
                    exponent - bits);
}

/// The nearest of the numbers that stand for integers.
static double nearest(double value, const WeightScale &scale,
                      const Levels &levels) {
  double integer = std::nearbyint(value / scale.scale) + double(scale.zero);
  integer = std::clamp(integer, double(levels.low), double(levels.high));
  return (integer - double(scale.zero)) * scale.scale;
}

/// About the squared error of `values`. It is taken of every weight for every
/// scale that is tried, so the loop is one that compilers vectorise.
static double squaredError(llvm::ArrayRef<float> values,
                           const WeightScale &scale, const Levels &levels) {
  // Added to a number below 2^22 and taken off again, this leaves an integer.
  constexpr float kNoFraction = 0x1.8p23f;
  constexpr size_t kLanes = 8;
  float inverse = 1 / scale.scale, low = float(levels.low - scale.zero),
        high = float(levels.high - scale.zero);
  // In steps, so that no square vanishes.
  auto lossOf = [&](float value) {
    float exact = value * inverse;
    float integer = std::min(std::max(exact, low), high);
    integer = (integer + kNoFraction) - kNoFraction;
    return (integer - exact) * (integer - exact);
  };
  float sums[kLanes] = {};
  size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += lossOf(values[i + lane]);
  double total = 0;
  for (float sum : sums)
    total += sum;
  for (float value : values.drop_front(whole))
    total += lossOf(value);
  return total * double(scale.scale) * double(scale.scale);
}

WeightScale mpc::chooseScale(llvm::ArrayRef<float> values,
                             const WeightFormat &format, int bits) {
  // Numbers so small that their scale's product with an integer might lose
  // bits are zeros.
  constexpr double kLeastScale = 0x1p-100;
  // Shares of the range that scales are tried for.
  constexpr double kShares[] = {1,    0.97, 0.94, 0.91, 0.88, 0.85, 0.82,
                                0.79, 0.75, 0.71, 0.67, 0.63, 0.59, 0.55};
  Levels levels(format, bits);
  double least = 0, most = 0;
  for (float value : values) {
    least = std::min(least, double(value));
    most = std::max(most, double(value));
  }
  WeightScale best;
  double bestError = HUGE_VAL;
  for (double share : kShares) {
    double scale = levels.hasZero ? (most - least) / double(levels.high)
                                  : std::max(most / double(levels.high),
                                             least / double(levels.low));
    scale =
        withBits(scale * share, levels.significantBits, /*isLeast=*/share == 1);
    if (!(scale >= kLeastScale))
      break;
    WeightScale tried{float(scale), 0};
    if (levels.hasZero)
      tried.zero = std::clamp<int64_t>(
          int64_t(std::nearbyint(-least * share / scale)), 0, levels.high);
    if (!format.clip)
      return tried;
    double error = squaredError(values, tried, levels);
    if (error >= bestError)
      continue;
    bestError = error;
    best = tried;
  }
  return best;
}

/// `value` in a float type of so many significant bits, of which the least
/// normal number is 2^`leastExponent` and the largest one `largest`.
static float roundTo(float value, int bits, int leastExponent, double largest) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent = std::max(std::ilogb(value), leastExponent) - bits + 1;
  double rounded = std::ldexp(
      std::nearbyint(std::ldexp(double(value), -exponent)), exponent);
  return std::abs(rounded) > largest
             ? std::copysign(std::numeric_limits<float>::infinity(), value)
             : float(rounded);
}

void mpc::roundWeights(llvm::MutableArrayRef<float> values,
                       const WeightFormat &format, int bits) {
  switch (format.type) {
  case WeightType::Float32:
    return;
  case WeightType::Float16:
    for (float &value : values)
      value = roundTo(value, 11, -14, 65504);
    return;
  case WeightType::BFloat16:
    for (float &value : values)
      value = roundTo(value, 8, -126, 0x1.fep127);
    return;
  case WeightType::Int8:
  case WeightType::Int4:
    break;
  }
  WeightScale scale = chooseScale(values, format, bits);
  Levels levels(format, bits);
  for (float &value : values)
    value = float(nearest(value, scale, levels));
}
