//===- RoundingErrorSampling.cpp - rounding error by random sampling ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RoundingErrorSampling.h"

#include "mpc/Reference/Compare.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Rounding;
using mpc::reference::Tensor;

static constexpr int kSamples = mpc::reference::kErrorSamples;

/// Smallest relative perturbation: more than the last bits, which a sum with a
/// larger number would round away.
static constexpr double kLeastNudge = 0x1p-12;
/// Fewest samples that estimate a deviation.
static constexpr size_t kFewestSamples = 5;

/// Perturbs every float by up to the part `most` of it.
static void nudge(std::vector<Tensor> &inputs, double most,
                  std::mt19937_64 &generator) {
  std::uniform_real_distribution<double> part(-most, most);
  for (Tensor &input : inputs)
    if (input.getType().getElementType().isF32())
      for (double &value : input.floats())
        // Round to float32, so that both modes start with the same numbers.
        value = static_cast<float>(value * (1 + part(generator)));
}

/// Returns true if the same elements of two tensors are finite.
static bool areFiniteAlike(const Tensor &left, const Tensor &right) {
  return !left.isFloat() ||
         (left.size() == right.size() &&
          llvm::all_of(llvm::zip(left.floats(), right.floats()), [](auto pair) {
            return std::isfinite(std::get<0>(pair)) ==
                   std::isfinite(std::get<1>(pair));
          }));
}

/// Returns the root mean square of the finite elements, 1 if it is 0.
static double magnitudeOf(const Tensor &tensor) {
  double squares = 0;
  int64_t count = 0;
  for (double value : tensor.floats())
    if (std::isfinite(value)) {
      squares += value * value;
      ++count;
    }
  return squares > 0 ? std::sqrt(squares / double(count)) : 1;
}

/// Returns the standard deviation of errors, given root mean squares of `count`
/// elements each; 0 if too few samples are left.
static double deviationOf(std::vector<double> &samples, int64_t count) {
  if (samples.size() < kFewestSamples)
    return 0;
  // Without the largest: in a sample a step function of the model may fall on
  // the other side.
  llvm::sort(samples);
  double squares = 0;
  for (double sample : llvm::ArrayRef(samples).drop_back())
    squares += sample * sample;
  // The largest of nine squares of a normal number takes 0.41 of their mean
  // with it, and inversely less of those of more numbers.
  return std::sqrt(
      squares / double(samples.size() - 1) /
      (1 - 0.41 / static_cast<double>(std::max<int64_t>(count, 1))));
}

Result<std::vector<reference::ErrorMeasures>>
mpc::tool::sampleErrors(std::vector<Tensor> &inputs, uint64_t seed,
                        double roundoff, llvm::ArrayRef<Tensor> reference,
                        llvm::ArrayRef<Tensor> magnitudes, RunMode runMode) {
  constexpr Rounding kOrders[] = {Rounding::Declared,
                                  Rounding::DeclaredBackwards};
  const std::vector<Tensor> original = inputs;
  llvm::scope_exit restore([&] { inputs = original; });
  std::mt19937_64 generator(seed);
  /// Errors of one output in each sample.
  struct Samples {
    std::vector<double> normwise, componentwise;
    double largest = 0;
  };
  // By summation order and output.
  std::vector<Samples> errors[std::size(kOrders)];
  std::vector<int64_t> sizes(reference.size());
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = reference[i].size();
  double most = std::max(kLeastNudge, 2 * roundoff);
  for (int sample = 0; sample < kSamples; ++sample) {
    std::vector<Tensor> float64;
    // Closer to the given inputs if they leave a function's domain.
    for (;; most = std::max(most / 8, kLeastNudge)) {
      inputs = original;
      nudge(inputs, most, generator);
      float64.clear();
      if (Status status = runMode(Rounding::Float64, float64); !status.ok())
        return status;
      if (most == kLeastNudge ||
          llvm::all_of(llvm::zip(float64, reference), [](auto pair) {
            return areFiniteAlike(std::get<0>(pair), std::get<1>(pair));
          }))
        break;
    }
    for (auto [order, found] : llvm::zip_equal(kOrders, errors)) {
      std::vector<Tensor> declared;
      if (Status status = runMode(order, declared); !status.ok())
        return status;
      found.resize(float64.size());
      for (size_t i = 0; i < float64.size(); ++i) {
        if (!float64[i].isFloat()) {
          found[i].largest = std::max(
              found[i].largest,
              static_cast<double>(
                  reference::compareOutput(declared[i], float64[i], float64[i],
                                           /*longestReduction=*/1,
                                           /*fatalIntegers=*/false)
                      .mismatches));
          continue;
        }
        reference::ErrorMeasures measures = reference::measureDeclaredError(
            declared[i], float64[i], magnitudes[i]);
        // Perturbed inputs that overflow or leave the domain permit nothing.
        if (!areFiniteAlike(float64[i], reference[i]) ||
            !std::isfinite(measures.normwise + measures.componentwise +
                           measures.largest))
          continue;
        // Relative to the given inputs' result, whose terms may cancel.
        found[i].normwise.push_back(measures.normwise *
                                    magnitudeOf(float64[i]) /
                                    magnitudeOf(reference[i]));
        found[i].componentwise.push_back(measures.componentwise);
        found[i].largest = std::max(found[i].largest, measures.largest);
      }
    }
  }
  std::vector<reference::ErrorMeasures> deviations(sizes.size());
  for (std::vector<Samples> &found : errors)
    for (size_t i = 0; i < sizes.size(); ++i) {
      deviations[i].normwise = std::max(
          deviations[i].normwise, deviationOf(found[i].normwise, sizes[i]));
      deviations[i].componentwise =
          std::max(deviations[i].componentwise,
                   deviationOf(found[i].componentwise, sizes[i]));
      deviations[i].largest = std::max(deviations[i].largest, found[i].largest);
    }
  return deviations;
}
