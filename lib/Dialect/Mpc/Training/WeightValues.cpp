//===- WeightValues.cpp - values of parameters and constants --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightValues.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Relative error of values that were computed by a formula and rounded.
static double toleranceOf(const reference::Tensor &tensor) {
  unsigned digits =
      cast<FloatType>(tensor.getElementType()).getFPMantissaWidth();
  return std::max(1e-6, std::ldexp(1.0, 2 - int(digits)));
}

static double largestOf(ArrayRef<double> values) {
  double largest = 0;
  for (double value : values)
    largest = std::max(largest, std::fabs(value));
  return largest;
}

bool mpc::holdsFiniteNumbers(const reference::Tensor &tensor) {
  return llvm::all_of(tensor.floats(),
                      [](double element) { return std::isfinite(element); });
}

int64_t mpc::wideDims(ArrayRef<int64_t> shape) {
  return llvm::count_if(shape, [](int64_t extent) { return extent > 1; });
}

bool mpc::holdsZerosAndOnes(const reference::Tensor &tensor) {
  int64_t zeros = llvm::count(tensor.floats(), 0.0),
          ones = llvm::count(tensor.floats(), 1.0);
  return zeros > 0 && ones > 0 && zeros + ones == tensor.size() &&
         wideDims(tensor.getShape()) > 1;
}

bool mpc::holdsMask(const reference::Tensor &tensor) {
  if (holdsZerosAndOnes(tensor))
    return true;
  int64_t zeros = llvm::count(tensor.floats(), 0.0);
  return zeros > 0 && zeros < tensor.size() &&
         llvm::all_of(
             tensor.floats(),
             [](double element) {
               return element == 0.0 || element <= -kMaskMagnitude;
             });
}

/// Returns true if every row of a table along `axis` is a sampled wave, v(p +
/// 1) + v(p - 1) = c v(p) with |c| <= 2: a sine or cosine, or a ramp for c = 2.
/// Not all rows may be constant.
static bool followsWaves(const reference::Tensor &tensor, int64_t axis,
                         double tolerance, bool ramps) {
  ArrayRef<int64_t> shape = tensor.getShape();
  int64_t count = shape[axis], stride = productOf(shape.drop_front(axis + 1));
  if (count < 5)
    return false;
  ArrayRef<double> values = tensor.floats();
  double limit = tolerance * largestOf(values);
  bool varies = false;
  for (int64_t line = 0, lines = tensor.size() / count; line < lines; ++line) {
    int64_t begin = line / stride * stride * count + line % stride;
    auto at = [&](int64_t i) { return values[begin + i * stride]; };
    double product = 0, square = 0, slope = 0;
    for (int64_t i = 1; i + 1 < count; ++i) {
      product += at(i) * (at(i - 1) + at(i + 1));
      square += at(i) * at(i);
      slope = std::max(slope, std::fabs(at(i) - at(i - 1)));
    }
    double c = square > 0 ? std::clamp(product / square, -2.0, 2.0) : 0;
    for (int64_t i = 1; i + 1 < count; ++i)
      if (std::fabs(at(i - 1) + at(i + 1) - c * at(i)) > limit)
        return false;
    varies |= slope > 16 * limit && (ramps || c < 2 - 16 * tolerance);
  }
  return varies;
}

bool mpc::holdsWaves(const reference::Tensor &tensor, bool ramps) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (wideDims(shape) < 2)
    return false;
  // The rounding error of float32 angles is proportional to the angle.
  double tolerance =
      tensor.getType().getElementTypeBitWidth() < 32 ? 0.03 : 2e-3;
  for (int64_t axis = 0; axis < tensor.getRank(); ++axis)
    if (followsWaves(tensor, axis, tolerance, ramps))
      return true;
  return false;
}

bool mpc::holdsGrid(const reference::Tensor &tensor) {
  SmallVector<double> levels(tensor.floats());
  llvm::sort(levels);
  levels.erase(llvm::unique(levels), levels.end());
  // Learned values of 16 bits repeat too, but not as often.
  if (levels.size() < 3 || tensor.size() < 12 ||
      std::pow(double(levels.size()), 2) > 4 * double(tensor.size()))
    return false;
  double step = levels.back() - levels.front();
  for (size_t i = 1; i < levels.size(); ++i)
    step = std::min(step, levels[i] - levels[i - 1]);
  return llvm::all_of(levels, [&](double level) {
    double steps = (level - levels.front()) / step;
    return std::fabs(steps - std::nearbyint(steps)) < 1e-3;
  });
}

/// Returns the number of consecutive points with equal values and the period of
/// a channel over `count` points, both dividing what they repeat in.
static std::pair<int64_t, int64_t>
runAndPeriod(int64_t count, llvm::function_ref<double(int64_t)> at) {
  auto equals = [&](llvm::function_ref<int64_t(int64_t)> map) {
    return llvm::all_of(llvm::seq(count),
                        [&](int64_t p) { return at(p) == at(map(p)); });
  };
  int64_t period = 1;
  while (count % period != 0 || !equals([&](int64_t p) { return p % period; }))
    ++period;
  int64_t run = period;
  while (period % run != 0 || !equals([&](int64_t p) { return p / run * run; }))
    --run;
  return {run, period};
}

bool mpc::holdsSeparableGrid(const reference::Tensor &tensor) {
  SmallVector<int64_t> wide = llvm::filter_to_vector(
      tensor.getShape(), [](int64_t extent) { return extent > 1; });
  if (wide.size() < 2)
    return false;
  ArrayRef<double> values = tensor.floats();
  // Channels before the points, after them, and after a token and the points.
  for (auto [channels, isLast, skipped] :
       {std::tuple(wide.front(), false, 0), std::tuple(wide.back(), true, 0),
        std::tuple(wide.back(), true, 1)}) {
    int64_t count = tensor.size() / channels, points = count - skipped;
    bool isGrid = true, hasLevels = false;
    llvm::SmallDenseSet<std::pair<int64_t, int64_t>> kinds;
    for (int64_t channel = 0; channel < channels && isGrid; ++channel) {
      auto [run, period] = runAndPeriod(points, [&](int64_t p) {
        return isLast ? values[(p + skipped) * channels + channel]
                      : values[channel * count + p];
      });
      int64_t levels = period / run;
      isGrid = 2 * levels <= points;
      hasLevels |= levels > 2;
      if (levels > 1)
        kinds.insert({run, period});
    }
    if (isGrid && hasLevels && kinds.size() > 1)
      return true;
  }
  return false;
}

bool mpc::holdsProgression(const reference::Tensor &tensor, bool geometric) {
  ArrayRef<double> values = tensor.floats();
  if (wideDims(tensor.getShape()) != 1 || values.size() < 5 ||
      values.front() == values.back())
    return false;
  double limit = toleranceOf(tensor) * largestOf(values);
  bool isLinear = true, isExponential = geometric;
  for (size_t i = 1; i + 1 < values.size(); ++i) {
    double last = values[i - 1], next = values[i + 1],
           square = values[i] * values[i];
    isLinear &= std::fabs(last + next - 2 * values[i]) <= limit;
    isExponential &=
        std::fabs(last * next - square) <= 8 * toleranceOf(tensor) * square &&
        square > 0;
  }
  return isLinear || isExponential;
}

bool mpc::holdsSchedule(const reference::Tensor &tensor) {
  ArrayRef<double> values = tensor.floats();
  return wideDims(tensor.getShape()) == 1 && values.size() >= 8 &&
         values.front() != values.back() &&
         (llvm::is_sorted(values) ||
          llvm::is_sorted(values, std::greater<double>()));
}

bool mpc::holdsUnitVector(const reference::Tensor &tensor) {
  double square = 0;
  for (double value : tensor.floats())
    square += value * value;
  return wideDims(tensor.getShape()) < 2 &&
         std::fabs(square - 1) <= 100 * toleranceOf(tensor);
}

/// Returns true if a filter equals its mirror image, or the negative of this.
static bool isSymmetric(ArrayRef<double> filter, double limit) {
  size_t taps = filter.size();
  // As a period the first tap is its own mirror image.
  for (size_t last : {taps - 1, taps})
    for (double sign : {1.0, -1.0})
      if ((last < taps || taps > 4) &&
          llvm::all_of(llvm::seq(taps), [&](size_t i) {
            return std::fabs(filter[i] - sign * filter[(last - i) % taps]) <=
                   limit;
          }))
        return true;
  return false;
}

bool mpc::holdsFixedFilter(const reference::Tensor &tensor, bool boxes) {
  ArrayRef<int64_t> shape = tensor.getShape();
  // A filter for all channels may be stored without these.
  int64_t taps =
      shape.size() < 3 ? tensor.size() : productOf(shape.drop_front(2));
  if (taps < 2)
    return false;
  bool isFixed = false;
  for (int64_t begin = 0; begin < tensor.size(); begin += taps) {
    ArrayRef<double> filter = tensor.floats().slice(begin, taps);
    double limit = toleranceOf(tensor) * largestOf(filter);
    if (!isSymmetric(filter, limit))
      return false;
    SmallVector<double> marks =
        llvm::filter_to_vector(filter, [](double tap) { return tap != 0; });
    if (marks.empty())
      continue;
    bool isFlat = llvm::all_of(marks, [&](double tap) {
      return std::fabs(tap - marks.front()) <= limit;
    });
    // Equal marks among zeros are an identity, from which layers may start.
    // A convolution over channels may start from equal values.
    bool isBox = isFlat && int64_t(marks.size()) == taps &&
                 (shape.size() < 3 || shape[1] == 1);
    bool averages = std::fabs(marks.front() * taps - 1) <= toleranceOf(tensor);
    isFixed |= !isFlat || (isBox && (averages || (boxes && shape.size() > 2)));
  }
  return isFixed;
}

bool mpc::holdsSymmetricMatrix(const reference::Tensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (shape.size() < 2 || shape.back() < 3 ||
      shape.back() != shape[shape.size() - 2])
    return false;
  int64_t rows = shape.back();
  ArrayRef<double> values = tensor.floats();
  double limit = toleranceOf(tensor) * largestOf(values);
  bool varies = false;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t row = i / rows % rows, column = i % rows;
    double mirrored = values[i + (column - row) * (rows - 1)];
    if (std::fabs(values[i] - mirrored) > limit)
      return false;
    // An identity or a constant is an initial value.
    varies |= row != column && std::fabs(values[i] - values.front()) > limit &&
              values[i] != 0;
  }
  return varies;
}

bool mpc::holdsSparseMatrix(const reference::Tensor &tensor) {
  ArrayRef<double> values = tensor.floats();
  int64_t zeros = llvm::count(values, 0.0);
  bool isPositive = llvm::all_of(values, [](double v) { return v >= 0; });
  return wideDims(tensor.getShape()) > 1 && tensor.size() > 8 &&
         zeros < tensor.size() && (isPositive ? 4 : 2) * zeros >= tensor.size();
}
