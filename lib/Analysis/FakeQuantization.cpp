//===- FakeQuantization.cpp - fake quantization of weights ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/FakeQuantization.h"

#include "RoundEven.h"

#include "mpc/Support/NarrowFloat.h"
#include "mpc/Support/VectorClones.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace mpc;

namespace {

/// The integers of a format. 16-bit ones leave nine bits to scales.
struct Levels {
  Levels(const WeightFormat &format, int bits) {
    isFloat = format.type == WeightType::Float8;
    int64_t count = format.type == WeightType::Int4    ? 16
                    : format.type == WeightType::Int16 ? 65536
                                                       : 256;
    low = format.zeroPoint ? 0 : -count / 2;
    high = low + count - 1;
    hasZero = format.zeroPoint;
    // Significant bits of a scale such that its product with an integer is
    // exact; scales of groups are stored as bf16.
    significantBits = format.type == WeightType::Int4 ? 8 : 16;
    int64_t furthest = hasZero ? count - 1 : count / 2 - 1;
    int bitsOfNumber = isFloat ? kFloat8E4M3FN.fractionBits + 1
                               : int(std::bit_width(uint64_t(furthest)));
    significantBits = std::min(significantBits, bits - bitsOfNumber);
  }

  /// The smallest scale that clips no number from `least` to `most`.
  double wholeScale(double least, double most) const {
    if (isFloat)
      return std::max(-least, most) / kFloat8E4M3FN.largest();
    return hasZero ? (most - least) / double(high)
                   : std::max(most / double(high), least / double(low));
  }

  int64_t low, high;
  bool hasZero, isFloat;
  int significantBits;
};

} // namespace

/// Rounds `value`, a positive normal number, to `bits` significant bits: to
/// nearest, ties to even, or up. By its bits: this runs for every candidate
/// scale of every group.
static double withBits(double value, int bits, bool isLeast) {
  int dropped = std::numeric_limits<double>::digits - bits;
  auto number = std::bit_cast<uint64_t>(value);
  // The only bit, the leading one, is not stored.
  uint64_t step = uint64_t(1) << dropped,
           isOdd = bits == 1 ? 1 : number >> dropped & 1;
  number += isLeast ? step - 1 : step / 2 - 1 + isOdd;
  return std::bit_cast<double>(number & ~(step - 1));
}

/// Returns the sum of `lossOf(value)` times its weight in `squares`, if any.
/// Runs for every weight and every candidate scale, so the loop is written to
/// be vectorized.
template <typename Loss>
[[gnu::always_inline]] static inline double
weighedSum(llvm::ArrayRef<float> values, llvm::ArrayRef<float> squares,
           Loss lossOf) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t whole = values.size() / kLanes * kLanes;
  double total = 0;
  auto add = [&](auto weigh) __attribute__((always_inline)) {
    for (size_t i = 0; i < whole; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane)
        sums[lane] += weigh(lossOf(values[i + lane]), i + lane);
    for (size_t i = whole; i < values.size(); ++i)
      total += weigh(lossOf(values[i]), i);
  };
  if (squares.empty())
    add([](float loss, size_t) __attribute__((always_inline)) { return loss; });
  else
    add([&](float loss, size_t i)
            __attribute__((always_inline)) { return loss * squares[i]; });
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane)
      sums[lane] += sums[lane + half];
  return total + sums[0];
}

/// Approximate squared error of `values`.
MPC_VECTOR_CLONES
static double squaredError(llvm::ArrayRef<float> values,
                           llvm::ArrayRef<float> squares,
                           const WeightScale &scale, const Levels &levels) {
  // Adding and subtracting this rounds a number below 2^22 to an integer.
  constexpr float kNoFraction = 0x1.8p23f;
  // Floats are of this format.
  constexpr NarrowFloat kFormat = kFloat8E4M3FN;
  float inverse = 1 / scale.scale, low = float(levels.low - scale.zero),
        high = float(levels.high - scale.zero);
  // In units of the scale, so that no square underflows.
  auto lossOfInteger = [&](float value) __attribute__((always_inline)) {
    float exact = value * inverse;
    float integer = std::min(std::max(exact, low), high);
    integer = (integer + kNoFraction) - kNoFraction;
    return (integer - exact) * (integer - exact);
  };
  auto lossOfFloat = [&](float value) __attribute__((always_inline)) {
    float exact = std::min(std::abs(value * inverse), 0x1p60f);
    float number = std::min(exact, float(kFormat.largest()));
    // Below the smallest normal number steps are as long as above it. This
    // rounds to multiples of the step, a fraction of the power of two.
    float normal = std::max(number, float(kFormat.leastNormal()));
    uint32_t power = std::bit_cast<uint32_t>(normal) & 0x7f800000u;
    float noFraction = std::bit_cast<float>(power) *
                       (kNoFraction / float(1 << kFormat.fractionBits));
    number = (number + noFraction) - noFraction;
    return (number - exact) * (number - exact);
  };
  double total = levels.isFloat ? weighedSum(values, squares, lossOfFloat)
                                : weighedSum(values, squares, lossOfInteger);
  return total * double(scale.scale) * double(scale.scale);
}

/// Sets the least and the largest of `values` and zero.
MPC_VECTOR_CLONES
static void findRange(llvm::ArrayRef<float> values, float &least, float &most) {
  constexpr size_t kLanes = 16;
  float low[kLanes] = {}, high[kLanes] = {};
  size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      float value = values[i + lane];
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
    }
  least = most = 0;
  for (size_t i = whole; i < values.size(); ++i) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) {
      low[lane] = low[lane + half] < low[lane] ? low[lane + half] : low[lane];
      high[lane] =
          high[lane + half] > high[lane] ? high[lane + half] : high[lane];
    }
  least = low[0] < least ? low[0] : least;
  most = high[0] > most ? high[0] : most;
}

WeightScale mpc::chooseScale(llvm::ArrayRef<float> values,
                             const WeightFormat &format, int bits,
                             llvm::ArrayRef<float> squares) {
  // A smaller scale would have fewer bits; the values it is too large for are
  // close to the smallest f32.
  constexpr double kLeastScale = 0x1p-126;
  // Candidate scales, as shares of the range.
  constexpr double kShares[] = {1,    0.97, 0.94, 0.91, 0.88, 0.85, 0.82,
                                0.79, 0.75, 0.71, 0.67, 0.63, 0.59, 0.55};
  Levels levels(format, bits);
  float least, most;
  findRange(values, least, most);
  WeightScale best;
  double bestError = HUGE_VAL;
  double whole = levels.wholeScale(least, most);
  for (double share : kShares) {
    double scale = withBits(std::max(whole * share, kLeastScale),
                            levels.significantBits, /*isLeast=*/share == 1);
    WeightScale tried{float(scale), 0};
    if (levels.hasZero)
      tried.zero = std::clamp<int64_t>(
          int64_t(std::nearbyint(-least * share / scale)), 0, levels.high);
    if (!format.clip)
      return tried;
    double error = squaredError(values, squares, tried, levels);
    if (error >= bestError)
      continue;
    bestError = error;
    best = tried;
  }
  return best;
}

/// Rounds `value` to a float type of `bits` significant bits, with smallest
/// normal number 2^`leastExponent` and largest number `largest`.
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

/// Rounds `values` to multiples of `scale` from `low` to `high` times it.
MPC_VECTOR_CLONES
static void roundToIntegers(llvm::MutableArrayRef<float> values, double scale,
                            double low, double high) {
  for (float &value : values) {
    double exact = double(value) / scale;
    value = float(roundEven(std::min(std::max(exact, low), high)) * scale);
  }
}

/// The same with a scale and a zero point for each value.
MPC_VECTOR_CLONES
static void roundRowToIntegers(llvm::MutableArrayRef<float> values,
                               llvm::ArrayRef<float> scales,
                               llvm::ArrayRef<float> zeros, float low,
                               float high) {
  const float *zero = zeros.data(), *scale = scales.data();
  float *value = values.data();
  for (size_t i = 0, end = values.size(); i < end; ++i) {
    double factor = scale[i], exact = double(value[i]) / factor;
    double least = low - zero[i], most = high - zero[i];
    value[i] =
        float(roundEven(std::min(std::max(exact, least), most)) * factor);
  }
}

void mpc::roundToScale(llvm::MutableArrayRef<float> values,
                       const WeightFormat &format, int bits,
                       const WeightScale &scale) {
  Levels levels(format, bits);
  if (levels.isFloat) {
    for (float &value : values)
      value = float(kFloat8E4M3FN.decode(
                        kFloat8E4M3FN.encode(double(value) / scale.scale)) *
                    scale.scale);
    return;
  }
  double low = double(levels.low - scale.zero),
         high = double(levels.high - scale.zero);
  roundToIntegers(values, scale.scale, low, high);
}

void mpc::roundRow(llvm::MutableArrayRef<float> values,
                   const WeightFormat &format, int bits,
                   llvm::ArrayRef<float> scales, llvm::ArrayRef<float> zeros) {
  Levels levels(format, bits);
  roundRowToIntegers(values, scales, zeros, float(levels.low),
                     float(levels.high));
}

void mpc::roundWeights(llvm::MutableArrayRef<float> values,
                       const WeightFormat &format, int bits,
                       llvm::ArrayRef<float> squares) {
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
  case WeightType::Int16:
  case WeightType::Int8:
  case WeightType::Int4:
  case WeightType::Float8:
    break;
  }
  roundToScale(values, format, bits,
               chooseScale(values, format, bits, squares));
}
