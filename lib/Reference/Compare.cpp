//===- Compare.cpp - output check against the oracle ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/Compare.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcOptimizerOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns true for two NaNs or equal infinities.
static bool sameNonFinite(double lhs, double rhs) {
  return (std::isnan(lhs) && std::isnan(rhs)) ||
         (std::isinf(lhs) && lhs == rhs);
}

/// Returns element `index` as a double.
static double elementAt(const Tensor &tensor, int64_t index) {
  return tensor.isFloat() ? tensor.floats()[index]
                          : static_cast<double>(tensor.ints()[index]);
}

double mpc::reference::rmsRelativeError(const Tensor &actual,
                                        const Tensor &expected) {
  if (actual.size() != expected.size())
    return kInfinity;
  double difference = 0, magnitude = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double a = elementAt(actual, i), b = elementAt(expected, i);
    if (sameNonFinite(a, b))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b))
      return kInfinity;
    difference += (a - b) * (a - b);
    magnitude += b * b;
  }
  return std::sqrt(magnitude == 0
                       ? difference / std::max<int64_t>(expected.size(), 1)
                       : difference / magnitude);
}

//===----------------------------------------------------------------------===//
// Magnitudes
//===----------------------------------------------------------------------===//

/// Returns a bound for the error of an element relative to its terms, above
/// which a discrete decision fell otherwise. Where terms cancel down to their
/// rounding errors, most elements have large `errors`.
static double roundingLimit(std::vector<double> errors) {
  auto above = static_cast<int64_t>((errors.size() + 9) / 10);
  if (above >= static_cast<int64_t>(errors.size()))
    return 1;
  auto upper = errors.end() - 1 - above;
  std::nth_element(errors.begin(), upper, errors.end());
  return std::max(1.0, 4 * *upper);
}

namespace {

/// Upper bound for the ratio of two samples of the error of one element.
constexpr double kOneSampleFactor = 16;

/// Term magnitudes by which the errors of elements are divided. Refers to the
/// tensor.
class Scales {
public:
  explicit Scales(const Tensor &tensor) : magnitudes(tensor.floats()) {
    if (llvm::all_of(magnitudes, isScale))
      return;
    std::vector<double> positive;
    llvm::copy_if(magnitudes, std::back_inserter(positive), isScale);
    // A small magnitude of the others, so that large ones do not hide errors.
    if (!positive.empty()) {
      auto quartile = positive.begin() + positive.size() / 4;
      std::nth_element(positive.begin(), quartile, positive.end());
      ofZeros = *quartile;
    }
  }

  /// Raises the scale of elements in which a discrete decision of `declared`
  /// fell otherwise than in `reference`.
  void raise(const Tensor &declared, const Tensor &reference) {
    auto errorAt = [&](int64_t i) {
      double error = std::fabs(declared.floats()[i] - reference.floats()[i]);
      return std::isfinite(error) ? error / (*this)[i] : 0;
    };
    auto indices = llvm::seq<int64_t>(0, magnitudes.size());
    if (llvm::all_of(indices, [&](int64_t i) { return errorAt(i) <= 1; }))
      return;
    std::vector<double> errors;
    for (int64_t i : indices)
      if (std::isfinite(declared.floats()[i] - reference.floats()[i]))
        errors.push_back(errorAt(i));
    double limit = roundingLimit(std::move(errors));
    for (int64_t i : indices) {
      double scale = (*this)[i], error = errorAt(i);
      if (error <= limit)
        continue;
      largestFlip = std::max(
          largestFlip,
          error / std::max(1.0, std::fabs(reference.floats()[i]) / scale));
      flipped[i] = error * scale / limit;
    }
  }

  double operator[](int64_t index) const {
    if (auto found = flipped.find(index); found != flipped.end())
      return found->second;
    double magnitude = magnitudes[index];
    return isScale(magnitude) ? magnitude : ofZeros;
  }
  /// Returns true if the scale of this element was raised.
  bool isFlipped(int64_t index) const { return flipped.contains(index); }
  int64_t flips() const { return static_cast<int64_t>(flipped.size()); }
  /// Returns the largest error of `declared` in a raised element, relative to
  /// its terms; 0 if no scale was raised. With twice this error, an element has
  /// at most the tolerance of a single sample.
  double flipError() const {
    return std::min(largestFlip, kOneSampleFactor / 2);
  }

private:
  static bool isScale(double magnitude) {
    return magnitude > 0 && std::isfinite(magnitude);
  }

  ArrayRef<double> magnitudes;
  /// Scale of elements without terms.
  double ofZeros = 1;
  /// Raised scales by element.
  llvm::DenseMap<int64_t, double> flipped;
  double largestFlip = 0;
};

/// Sums over the errors of elements relative to their terms.
struct ErrorSums {
  double squares = 0, fourths = 0, largest = 0;
  int64_t count = 0;
  bool any = false;

  /// Adds an element and returns true if it has the largest error so far. The
  /// scales of magnitude classes may be below the element itself. Flipped
  /// elements count in the rms only.
  bool add(double error, const Scales &scales, int64_t index, double element) {
    double square = std::pow(error / scales[index], 2);
    squares += square;
    fourths += square * square;
    ++count;
    if (scales.isFlipped(index))
      return false;
    double relative = error / std::max(scales[index], std::fabs(element));
    bool isLargest = !std::exchange(any, true) || relative > largest;
    largest = std::max(largest, relative);
    return isLargest;
  }
  double rms() const {
    return std::sqrt(squares /
                     static_cast<double>(std::max<int64_t>(count, 1)));
  }
};

} // namespace

static ErrorMeasures measure(const Tensor &actual, const Tensor &expected,
                             const Scales &scales) {
  ErrorMeasures measures;
  measures.normwise = rmsRelativeError(actual, expected);
  ErrorSums sums;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double a = elementAt(actual, i), b = elementAt(expected, i);
    if (sameNonFinite(a, b))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b))
      return {measures.normwise, kInfinity, kInfinity};
    sums.add(std::fabs(a - b), scales, i, b);
  }
  measures.componentwise = sums.rms();
  measures.largest = std::max(sums.largest, scales.flipError());
  return measures;
}

ErrorMeasures mpc::reference::measureError(const Tensor &actual,
                                           const Tensor &expected,
                                           const Tensor &magnitudes) {
  if (actual.size() != expected.size() || magnitudes.size() != actual.size())
    return {kInfinity, kInfinity, kInfinity};
  return measure(actual, expected, Scales(magnitudes));
}

ErrorMeasures mpc::reference::measureDeclaredError(const Tensor &declared,
                                                   const Tensor &reference,
                                                   const Tensor &magnitudes) {
  Scales scales(magnitudes);
  scales.raise(declared, reference);
  return measure(declared, reference, scales);
}

Tensor mpc::reference::clusterMagnitudes(const Tensor &reference) {
  constexpr double kGap = 1024;
  constexpr int64_t kFewest = 2;
  Tensor result(reference.getType());
  std::vector<int64_t> order;
  for (auto [index, value] : llvm::enumerate(reference.floats()))
    if (std::isfinite(value))
      order.push_back(index);
  auto magnitude = [&](int64_t index) {
    return std::fabs(reference.floats()[index]);
  };
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return std::pair(magnitude(a), a) < std::pair(magnitude(b), b);
  });
  for (size_t first = 0; first < order.size();) {
    double squares = 0, below = 0;
    size_t end = first;
    for (int64_t positive = 0; end < order.size(); ++end) {
      double next = magnitude(order[end]);
      if (positive >= kFewest && next > kGap * below)
        break;
      squares += next * next;
      positive += next > 0;
      below = next;
    }
    double rms = std::sqrt(squares / static_cast<double>(end - first));
    for (; first < end; ++first)
      result.floats()[order[first]] = rms > 0 ? rms : 1;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Tolerances
//===----------------------------------------------------------------------===//

/// Error bound for reordering the longest sum.
static double orderTolerance(int64_t longestReduction) {
  auto length = static_cast<double>(std::max<int64_t>(longestReduction, 1));
  return 4 * std::sqrt(length) * 0x1p-24;
}

/// Upper bound for the largest of `count` standard normal variables, exceeded
/// once in a million times (compareOutput()).
static double largestFactor(int64_t count) {
  return std::sqrt(
      2 * std::log(1e6 * static_cast<double>(std::max<int64_t>(count, 1))));
}

void OutputError::widen(const ErrorMeasures &margin) {
  tolerance += margin.normwise;
  componentwiseTolerance += margin.componentwise;
  largestTolerance = std::max(largestTolerance + margin.largest,
                              largestFactor(compared) * componentwiseTolerance);
  ok = isWithinTolerance();
}

/// Upper bound for the ratio of the rms of n errors to the deviation estimated
/// from kErrorSamples - 2 such samples (of kErrorSamples one is dropped, which
/// costs about another), exceeded once in a million times: its square has an F
/// distribution (approximation by E. Paulson, Annals of Mathematical Statistics
/// 13, 1942).
static double sampledFactor(double n) {
  constexpr double z = 4.75;
  double own = 2 / (9 * n), other = own / (kErrorSamples - 2);
  // Solves ((1 - other) x - (1 - own))^2 = z^2 (other x^2 + own), x^3 = F.
  double a = (1 - other) * (1 - other) - z * z * other,
         b = (1 - other) * (1 - own), c = (1 - own) * (1 - own) - z * z * own;
  double root = a > 0 ? (b + std::sqrt(b * b - a * c)) / a : kInfinity;
  return std::clamp(std::pow(root, 1.5), 2.0, kOneSampleFactor);
}

void mpc::reference::widenTolerance(OutputError &error,
                                    const ErrorMeasures &sampled,
                                    int64_t longestReduction) {
  double factor = sampledFactor(std::max(error.effective, 1.0));
  double order = orderTolerance(longestReduction);
  error.tolerance =
      std::max(error.tolerance, factor * sampled.normwise + order);
  error.componentwiseTolerance = std::max(
      error.componentwiseTolerance, factor * sampled.componentwise + order);
  error.largestTolerance =
      std::max(error.largestTolerance, factor * sampled.largest + order);
  error.widen({});
}

/// Effective number of elements in the sum of squares of `count` errors, by the
/// kurtosis: fourth powers sum to 3 n for n standard normal errors, and to more
/// if few large errors dominate.
static double effectiveCount(double squares, double fourths, double count) {
  return fourths > 0 ? std::min(count, 3 * squares * squares / fourths) : count;
}

/// Upper bound for the ratio of the rms of two samples of `effective` errors:
/// their log ratio has deviation 1 / sqrt(n), exceeded 4.9-fold once in a
/// million times.
static double sampleFactor(double effective) {
  return std::clamp(std::exp(4.9 / std::sqrt(std::max(effective, 1.0))), 2.0,
                    kOneSampleFactor);
}

/// Compares finite elements relative to their term magnitudes.
static void compareComponents(const Tensor &actual, const Tensor &reference,
                              const Tensor &declared, const Tensor &magnitudes,
                              int64_t longestReduction, OutputError &error) {
  Scales scales(magnitudes);
  scales.raise(declared, reference);
  ErrorSums own, predicted;
  for (int64_t i = 0; i < reference.size(); ++i) {
    double a = actual.floats()[i], r = reference.floats()[i],
           d = declared.floats()[i];
    if (!std::isfinite(a) || !std::isfinite(r))
      continue;
    if (own.add(std::fabs(a - r), scales, i, r)) {
      error.worstElement = i;
      error.worstError = std::fabs(a - r);
      error.worstMagnitude = std::max(scales[i], std::fabs(r));
    }
    // An element that overflows counts, but has no error.
    predicted.add(std::isfinite(d) ? std::fabs(d - r) : 0, scales, i, r);
  }
  error.componentwiseError = own.rms();
  error.largestError = own.largest;
  double factor =
      sampleFactor(effectiveCount(predicted.squares, predicted.fourths,
                                  static_cast<double>(predicted.count)));
  error.flips = scales.flips();
  error.largestTolerance =
      std::max(kOneSampleFactor * predicted.largest, 2 * scales.flipError());
  error.widen({0, factor * predicted.rms() + orderTolerance(longestReduction)});
}

static OutputError compareIntegers(const Tensor &actual,
                                   const Tensor &reference,
                                   const Tensor &declared, bool fatal) {
  OutputError error;
  for (auto [a, b, d] :
       llvm::zip_equal(actual.ints(), reference.ints(), declared.ints())) {
    error.mismatches += a != b;
    error.storageMismatches += d != b;
    error.maxAbsError =
        std::max(error.maxAbsError,
                 std::fabs(static_cast<double>(a) - static_cast<double>(b)));
  }
  error.rmsRelativeError = rmsRelativeError(actual, reference);
  error.ok = !fatal || error.mismatches == 0;
  return error;
}

void mpc::reference::boundMismatches(OutputError &error, int64_t predicted) {
  double root = std::sqrt(2 * static_cast<double>(predicted) + 0.375) +
                4.9 / std::sqrt(2.0);
  error.mismatchTolerance = static_cast<int64_t>(root * root);
  error.ok = error.mismatches <= error.mismatchTolerance;
}

OutputError
mpc::reference::compareOutput(const Tensor &actual, const Tensor &reference,
                              const Tensor &declared, int64_t longestReduction,
                              bool fatalIntegers, const Tensor *magnitudes) {
  if (actual.getShape() != reference.getShape() ||
      declared.getShape() != reference.getShape() ||
      actual.isFloat() != reference.isFloat() ||
      declared.isFloat() != reference.isFloat()) {
    OutputError error;
    error.maxAbsError = error.rmsRelativeError = kInfinity;
    error.mismatches = reference.size();
    error.ok = false;
    return error;
  }
  if (!reference.isFloat())
    return compareIntegers(actual, reference, declared, fatalIntegers);

  OutputError error;
  double actualSquares = 0, declaredSquares = 0, declaredFourths = 0,
         magnitudeSquares = 0;
  for (int64_t i = 0; i < reference.size(); ++i) {
    double a = actual.floats()[i], r = reference.floats()[i],
           d = declared.floats()[i];
    if (!std::isfinite(a) || !std::isfinite(r)) {
      if (sameNonFinite(a, r))
        continue;
      bool overflows = std::isfinite(r);
      if (error.overflows == 0 && (overflows || error.mismatches == 0))
        error.firstMismatch = i;
      ++error.mismatches;
      error.overflows += overflows;
      continue;
    }
    ++error.compared;
    error.maxAbsError = std::max(error.maxAbsError, std::fabs(a - r));
    actualSquares += (a - r) * (a - r);
    magnitudeSquares += r * r;
    if (!std::isfinite(d))
      continue;
    double square = (d - r) * (d - r);
    declaredSquares += square;
    declaredFourths += square * square;
  }
  double count = static_cast<double>(std::max<int64_t>(error.compared, 1));
  double magnitude = std::sqrt(magnitudeSquares / count);
  if (magnitude == 0)
    magnitude = 1;
  error.rmsRelativeError = std::sqrt(actualSquares / count) / magnitude;
  error.effective = effectiveCount(declaredSquares, declaredFourths, count);
  error.tolerance = 2 * std::sqrt(declaredSquares / count) / magnitude +
                    orderTolerance(longestReduction);
  if (magnitudes)
    compareComponents(actual, reference, declared, *magnitudes,
                      longestReduction, error);
  if (error.mismatches > 0) {
    error.maxAbsError = error.rmsRelativeError = kInfinity;
    if (magnitudes)
      error.componentwiseError = error.largestError = kInfinity;
  }
  error.ok = error.isWithinTolerance();
  return error;
}

/// Prints the index of element `index` of a tensor of `shape`: "[0, 3]".
static void printPosition(int64_t index, ArrayRef<int64_t> shape,
                          llvm::raw_ostream &os) {
  SmallVector<int64_t> position(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; index /= shape[axis])
    position[axis] = index % shape[axis];
  os << "[";
  llvm::interleaveComma(position, os);
  os << "]";
}

std::string mpc::reference::describeComponentError(const OutputError &error,
                                                   ArrayRef<int64_t> shape) {
  bool isOverRms = error.componentwiseError > error.componentwiseTolerance;
  if (error.worstElement < 0 || error.mismatches > 0 ||
      (!isOverRms && error.largestError <= error.largestTolerance))
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "element ";
  printPosition(error.worstElement, shape, os);
  os << llvm::format(" is off by %.3g where the magnitude of its terms is %.3g",
                     error.worstError, error.worstMagnitude);
  if (isOverRms)
    os << llvm::format("; relative to the terms of each element, the rms error "
                       "is %.2e and the tolerance %.2e",
                       error.componentwiseError, error.componentwiseTolerance);
  else
    os << llvm::format("; relative to its terms, the error is %.2e and the "
                       "tolerance of one element %.2e",
                       error.largestError, error.largestTolerance);
  return text;
}

std::string mpc::reference::describeFinitenessError(const OutputError &error,
                                                    ArrayRef<int64_t> shape) {
  if (error.firstMismatch < 0)
    return "";
  bool overflowed = error.overflows > 0;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << (overflowed ? error.overflows : error.mismatches) << " of "
     << productOf(shape)
     << (overflowed
             ? " elements are not finite where the reference is"
             : " elements differ from a NaN or infinity of the reference")
     << ", first at ";
  printPosition(error.firstMismatch, shape, os);
  return text;
}

//===----------------------------------------------------------------------===//
// Rounded values
//===----------------------------------------------------------------------===//

static bool isNarrowFloat(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

static bool rounds(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  return (contraction && contraction.getComputeMode() != ComputeMode::native) ||
         llvm::any_of(op->getOperandTypes(), isNarrowFloat) ||
         llvm::any_of(op->getResultTypes(), isNarrowFloat);
}

llvm::SmallVector<bool>
mpc::reference::resultsWithRounding(func::FuncOp function) {
  llvm::DenseSet<Value> rounded;
  Block &body = function.getBody().front();
  auto isRounded = [&](Value value) { return rounded.contains(value); };
  for (Operation &op : body)
    if (rounds(&op) || llvm::any_of(op.getOperands(), isRounded))
      rounded.insert_range(op.getResults());
  return llvm::map_to_vector(body.getTerminator()->getOperands(), isRounded);
}

//===----------------------------------------------------------------------===//
// Longest reduction
//===----------------------------------------------------------------------===//

/// Number of terms of the longest sum in one op; 1 if it sums nothing.
static int64_t sumLength(Operation *op) {
  // Scores sum over the width, the result over the positions.
  if (auto attention = dyn_cast<AttentionOp>(op))
    return std::max(attention.getQuery().getType().getShape().back(),
                    attention.getContractionSize());
  // The four matmuls sum over one extent each.
  if (auto gradient = dyn_cast<AttentionGradientOp>(op)) {
    ArrayRef<int64_t> query = gradient.getQuery().getType().getShape();
    return std::max({query.back(), query[query.size() - 2],
                     gradient.getValue().getType().getShape().back(),
                     gradient.getContractionSize()});
  }
  if (auto contraction = dyn_cast<ContractionOpInterface>(op))
    return contraction.getContractionSize();
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return reduction.getReductionSize();
  if (auto pool = dyn_cast<AvgPoolOp>(op))
    return productOf(pool.getWindow());
  if (op->hasTrait<Loss>())
    return elementCount(op->getOperand(0));
  if (auto norm = dyn_cast<BatchNormTrainingOp>(op)) {
    ArrayRef<int64_t> shape = norm.getInput().getType().getShape();
    return shape[0] * productOf(shape.drop_front(2));
  }
  if (auto norm = dyn_cast<GlobalNormOp>(op)) {
    int64_t total = 0;
    for (Value gradient : norm.getGradients())
      total += elementCount(gradient);
    return total;
  }
  if (auto steps = RecurrenceSteps::of(op))
    return productOf({steps->count(), steps->hidden()});
  if (auto steps = dyn_cast<RecurrenceGradientOp>(op))
    return productOf({steps.getSteps(), steps.getGates(), steps.getHidden()});
  if (fusionClassOf(op) == FusionClass::Recurrent) {
    ArrayRef<int64_t> input =
        cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
    ArrayRef<int64_t> recurrence =
        cast<RankedTensorType>(op->getOperand(2).getType()).getShape();
    return productOf({input[0], input[2] + recurrence[2]});
  }
  return 1;
}

int64_t mpc::reference::longestReduction(func::FuncOp function) {
  int64_t longest = 1;
  function.walk(
      [&](Operation *op) { longest = std::max(longest, sumLength(op)); });
  return longest;
}
