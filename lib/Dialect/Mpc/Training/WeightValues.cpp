//===- WeightValues.cpp - values of parameters and constants --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightValues.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

bool mpc::isFinite(ElementsAttr value) {
  if (std::optional<double> splat = splatValue(value))
    return std::isfinite(*splat);
  FailureOr<reference::Tensor> tensor = reference::Tensor::fromAttr(value);
  return succeeded(tensor) &&
         llvm::all_of(tensor->floats(),
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
  double limit = 0;
  for (double value : values)
    limit = std::max(limit, tolerance * std::fabs(value));
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
  if (wideDims(tensor.getShape()) < 2)
    return false;
  SmallVector<double> levels(tensor.floats());
  llvm::sort(levels);
  levels.erase(llvm::unique(levels), levels.end());
  if (levels.size() < 3 || int64_t(2 * levels.size()) > tensor.size())
    return false;
  double step = levels.back() - levels.front();
  for (size_t i = 1; i < levels.size(); ++i)
    step = std::min(step, levels[i] - levels[i - 1]);
  return llvm::all_of(levels, [&](double level) {
    double steps = (level - levels.front()) / step;
    return std::fabs(steps - std::nearbyint(steps)) < 1e-3;
  });
}

bool mpc::holdsFixedFilter(const reference::Tensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  if (shape.size() < 3 || shape[1] != 1)
    return false;
  int64_t taps = productOf(shape.drop_front(2));
  ArrayRef<double> values = tensor.floats();
  if (taps < 2 || llvm::all_of(values, [](double tap) { return tap == 0; }))
    return false;
  for (int64_t channel = 0; channel < shape[0]; ++channel) {
    ArrayRef<double> filter = values.slice(channel * taps, taps);
    bool same = true, opposite = true;
    for (int64_t i = 0; i < taps; ++i) {
      same &= filter[i] == filter[taps - 1 - i];
      opposite &= filter[i] == -filter[taps - 1 - i];
    }
    if (!same && !opposite)
      return false;
  }
  return true;
}
