//===- NumberGrids.cpp - numbers as integers times a scale ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LosslessEncoding.h"

#include "RoundEven.h"

#include "mpc/Support/NarrowFloat.h"
#include "mpc/Support/VectorClones.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace mpc;
using llvm::ArrayRef;

/// Returns true if all of `values` are integers below `bound` in magnitude
/// times `scale`, and then updates `least` and `most`, their extremes.
MPC_VECTOR_CLONES
static bool areMultiples(ArrayRef<float> values, double scale, double bound,
                         double &least, double &most) {
  constexpr size_t kLanes = 8;
  using Floats = float __attribute__((vector_size(4 * kLanes)));
  using Doubles = double __attribute__((vector_size(8 * kLanes)));
  using Words = int32_t __attribute__((vector_size(4 * kLanes)));
  Doubles low = {}, high = {};
  Words wrong = {};
  // Most scales that are tried fail for the first values.
  constexpr size_t kBetweenChecks = 8 * kLanes;
  double inverse = 1 / scale;
  for (size_t i = 0; i < values.size(); i += kLanes) {
    // Zeros, which are multiples, after the last value.
    Floats value = {};
    std::memcpy(&value, values.data() + i,
                std::min(kLanes, values.size() - i) * sizeof(float));
    Doubles integer = __builtin_convertvector(value, Doubles) * inverse;
    integer = (integer + kNoFraction) - kNoFraction;
    Floats product = __builtin_convertvector(integer * scale, Floats);
    low = integer < low ? integer : low;
    high = integer > high ? integer : high;
    wrong |= product != value;
    bool isLast = i + kLanes >= values.size();
    if ((i % kBetweenChecks == 0 || isLast) &&
        (__builtin_reduce_or(wrong) ||
         !__builtin_reduce_and((low > -bound) & (high < bound))))
      return false;
  }
  least = __builtin_reduce_min(low);
  most = __builtin_reduce_max(high);
  return true;
}

/// Returns the grid of `scale` if it contains zero and all of `values` in fewer
/// than `levels` steps.
static std::optional<IntegerGrid> gridOf(ArrayRef<float> values, float scale,
                                         int64_t levels) {
  double least = 0, most = 0;
  if (!areMultiples(values, double(scale), double(levels), least, most) ||
      most - least >= double(levels))
    return std::nullopt;
  return IntegerGrid{scale, int64_t(least), int64_t(most)};
}

/// Returns the grid in which `largest`, the largest magnitude of `values`, is
/// `integer`; nullopt if there is none.
static std::optional<IntegerGrid> gridOfLargest(ArrayRef<float> values,
                                                float largest, int64_t integer,
                                                int64_t levels) {
  // The largest number is the rounded f32 product of the integer and the scale,
  // which is then within an ulp of their quotient.
  float quotient = float(double(largest) / double(integer));
  for (float scale : {quotient, std::nextafterf(quotient, 0.0f),
                      std::nextafterf(quotient, HUGE_VALF)}) {
    if (!std::isnormal(scale) ||
        float(double(scale) * double(integer)) != largest)
      continue;
    if (std::optional<IntegerGrid> grid = gridOf(values, scale, levels))
      return grid;
  }
  return std::nullopt;
}

static float largestMagnitude(ArrayRef<float> values) {
  float largest = 0;
  for (float value : values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

std::optional<IntegerGrid> mpc::findGrid(ArrayRef<float> values, int64_t levels,
                                         int64_t likely) {
  float largest = largestMagnitude(values);
  if (largest == 0)
    return gridOf(values, 1, levels);
  if (likely > 0)
    if (std::optional<IntegerGrid> grid =
            gridOfLargest(values, largest, likely, levels))
      return grid;
  for (int64_t integer = 1; integer < levels; ++integer)
    if (std::optional<IntegerGrid> grid =
            gridOfLargest(values, largest, integer, levels))
      return grid;
  return std::nullopt;
}

std::optional<IntegerGrid> mpc::findExactGrid(ArrayRef<float> values,
                                              int64_t levels) {
  constexpr int kMantissa = 24;
  // Exponent of the lowest set bit of any value.
  int last = std::numeric_limits<int>::max();
  for (float value : values) {
    if (!std::isfinite(value))
      return std::nullopt;
    if (value == 0)
      continue;
    int exponent;
    auto mantissa =
        uint32_t(std::ldexp(std::frexp(std::abs(value), &exponent), kMantissa));
    last =
        std::min(last, exponent - kMantissa + int(std::countr_zero(mantissa)));
  }
  if (last == std::numeric_limits<int>::max())
    return IntegerGrid();
  // Multiples of that bit; the scale is their greatest common divisor.
  const double most = std::ldexp(double(levels), kMantissa);
  int64_t divisor = 0;
  std::vector<int64_t> multiples;
  for (float value : values) {
    double multiple = std::ldexp(double(value), -last);
    if (std::abs(multiple) >= most)
      return std::nullopt;
    multiples.push_back(int64_t(multiple));
    divisor = std::gcd(divisor, multiples.back());
  }
  IntegerGrid grid{float(std::ldexp(double(divisor), last)), 0, 0};
  if (divisor >= int64_t(1) << kMantissa || !std::isnormal(grid.scale))
    return std::nullopt;
  for (int64_t multiple : multiples) {
    grid.least = std::min(grid.least, multiple / divisor);
    grid.most = std::max(grid.most, multiple / divisor);
  }
  if (grid.most - grid.least >= levels)
    return std::nullopt;
  return grid;
}

/// Rounds `number` to `bits` significant bits, at most 24.
static float roundBits(double number, int bits) {
  int exponent;
  double mantissa = std::frexp(number, &exponent);
  return float(
      std::ldexp(roundEven(std::ldexp(mantissa, bits)), exponent - bits));
}

/// Returns `integer * scale + offset`, rounded once; `integer` has few bits.
/// Faster than a call of fma where the target of this build has none.
static float multiplyAdd(double integer, float scale, float offset) {
  double product = integer * double(scale), sum = product + double(offset);
  if (sum - product == double(offset) && sum - double(offset) == product)
    return float(sum);
  return std::fmaf(float(integer), scale, offset);
}

/// Returns the grid of `scale` and `offset` if all of `values` are on it.
static std::optional<OffsetGrid> gridOf(ArrayRef<float> values, float scale,
                                        float offset, int64_t levels) {
  OffsetGrid grid{scale, offset, 0};
  double inverse = 1 / double(scale);
  for (float value : values) {
    double integer = roundEven((double(value) - double(offset)) * inverse);
    if (!(integer >= 0 && integer < double(levels)) ||
        multiplyAdd(integer, scale, offset) != value)
      return std::nullopt;
    grid.most = std::max(grid.most, int64_t(integer));
  }
  return grid;
}

/// Returns the grid in which the largest of `values` is `steps` steps above the
/// smallest.
static std::optional<OffsetGrid> gridOfRange(ArrayRef<float> values,
                                             float least, float most,
                                             int64_t steps, int64_t levels,
                                             int bits) {
  // Half of the last bit of the larger magnitude: the error of a value.
  double error = std::ldexp(std::max(std::abs(least), std::abs(most)), -24);
  double step = (double(most) - double(least)) / double(steps);
  if (step < 8 * error)
    return std::nullopt;
  double inverse = 1 / step, tolerance = 2 * error * inverse + 1e-6;
  for (float value : values) {
    double position = (double(value) - double(least)) * inverse;
    if (std::abs(position - roundEven(position)) > tolerance)
      return std::nullopt;
  }
  float scale = roundBits(step, bits);
  if (!std::isnormal(scale))
    return std::nullopt;
  // The smallest value need not be the stored minimum.
  for (int64_t first = 0; first + steps < levels; ++first) {
    double offset = double(least) - double(first) * double(scale);
    if (std::abs(offset) <= 2 * error)
      offset = 0;
    if (std::optional<OffsetGrid> grid =
            gridOf(values, scale, roundBits(offset, bits), levels))
      return grid;
  }
  return std::nullopt;
}

std::optional<OffsetGrid> mpc::findOffsetGrid(ArrayRef<float> values,
                                              int64_t levels, int bits,
                                              int64_t likely) {
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (values.empty() ||
      !llvm::all_of(values, [](float value) { return std::isfinite(value); }))
    return std::nullopt;
  if (*least == *most) {
    if (roundBits(*least, bits) != *least)
      return std::nullopt;
    return OffsetGrid{1, *least, 0};
  }
  if (likely > 0)
    if (std::optional<OffsetGrid> grid =
            gridOfRange(values, *least, *most, likely, levels, bits))
      return grid;
  // From the finest: the scale of a coarser one has more bits.
  for (int64_t steps = levels - 1; steps > 0; --steps)
    if (std::optional<OffsetGrid> grid =
            gridOfRange(values, *least, *most, steps, levels, bits))
      return grid;
  return std::nullopt;
}

std::optional<float> mpc::findFloat8Scale(ArrayRef<float> values) {
  float largest = largestMagnitude(values);
  if (largest == 0)
    return 1;
  auto isScale = [&](float scale) {
    return llvm::all_of(values, [&](float value) {
      double number = kFloat8E4M3FN.decode(
          kFloat8E4M3FN.encode(double(value) / double(scale)));
      return float(number * double(scale)) == value;
    });
  };
  // Doubling the scale lowers the numbers' exponents by one, so the largest
  // number may be in the second-highest binade, if not in the highest, which
  // lacks 15 eighths.
  for (int eighths = 8; eighths < 16; ++eighths) {
    double number = std::ldexp(eighths, eighths < 15 ? 5 : 4);
    auto quotient = float(double(largest) / number);
    for (float scale : {quotient, std::nextafterf(quotient, 0.0f),
                        std::nextafterf(quotient, HUGE_VALF)})
      if (std::isnormal(scale) && float(double(scale) * number) == largest &&
          isScale(scale))
        return scale;
  }
  return std::nullopt;
}

std::optional<uint16_t> mpc::exactHalf(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x7f800000)
    return std::nullopt;
  if (magnitude >= 0x38800000) {
    if (magnitude > 0x477fe000 || magnitude & 0x1fff)
      return std::nullopt;
    return uint16_t(sign | (magnitude - 0x38000000) >> 13);
  }
  // Subnormal: a multiple of 2^-24.
  double steps = std::ldexp(std::abs(double(number)), 24);
  if (steps != std::floor(steps))
    return std::nullopt;
  return uint16_t(sign | uint32_t(steps));
}
