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

/// Perturbs every float by more than its last bits, which a sum with a larger
/// number would round away, and by more than the roundings of `roundoff`, which
/// are then others in every sample.
static void nudge(std::vector<Tensor> &inputs, double roundoff,
                  std::mt19937_64 &generator) {
  double most = std::max(0x1p-12, 2 * roundoff);
  std::uniform_real_distribution<double> part(-most, most);
  for (Tensor &input : inputs)
    if (input.getType().getElementType().isF32())
      for (double &value : input.floats())
        // Round to float32, so that both modes start with the same numbers.
        value = static_cast<float>(value * (1 + part(generator)));
}

/// Returns the standard deviation of errors, given relative root mean squares
/// of `count` elements each.
static double deviationOf(std::vector<double> &samples, int64_t count) {
  // Without the largest: in a sample a step function of the model may fall on
  // the other side.
  llvm::sort(samples);
  double squares = 0;
  for (double sample : llvm::ArrayRef(samples).drop_back())
    squares += sample * sample;
  // The largest of nine squares of a normal number takes 0.41 of their mean
  // with it, and inversely less of those of more numbers.
  return std::sqrt(
      squares / (kSamples - 1) /
      (1 - 0.41 / static_cast<double>(std::max<int64_t>(count, 1))));
}

Result<std::vector<reference::ErrorMeasures>>
mpc::tool::sampleErrors(std::vector<Tensor> &inputs, uint64_t seed,
                        double roundoff, llvm::ArrayRef<Tensor> magnitudes,
                        RunMode runMode) {
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
  std::vector<int64_t> sizes;
  for (int sample = 0; sample < kSamples; ++sample) {
    inputs = original;
    nudge(inputs, roundoff, generator);
    std::vector<Tensor> float64;
    if (Status status = runMode(Rounding::Float64, float64); !status.ok())
      return status;
    sizes.resize(float64.size());
    for (size_t i = 0; i < float64.size(); ++i)
      sizes[i] = float64[i].size();
    for (auto [order, found] : llvm::zip_equal(kOrders, errors)) {
      std::vector<Tensor> declared;
      if (Status status = runMode(order, declared); !status.ok())
        return status;
      found.resize(float64.size());
      for (size_t i = 0; i < float64.size(); ++i) {
        reference::ErrorMeasures measures;
        if (float64[i].isFloat())
          measures = reference::measureDeclaredError(declared[i], float64[i],
                                                     magnitudes[i]);
        else
          measures.largest = static_cast<double>(
              reference::compareOutput(declared[i], float64[i], float64[i],
                                       /*longestReduction=*/1,
                                       /*fatalIntegers=*/false)
                  .mismatches);
        found[i].normwise.push_back(measures.normwise);
        found[i].componentwise.push_back(measures.componentwise);
        // An overflow of perturbed inputs permits nothing.
        if (std::isfinite(measures.largest))
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
