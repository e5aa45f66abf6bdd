//===- Resample.cpp - how far rounding may lead ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Resample.h"

#include "mpc/Reference/Compare.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

/// Odd, so that the median is one of them.
static constexpr int kSamples = 9;

/// Moves every float by more than its last bits: a sum with a larger number
/// would round those away.
static void nudge(std::vector<Tensor> &inputs, std::mt19937_64 &generator) {
  std::uniform_real_distribution<double> part(-0x1p-12, 0x1p-12);
  for (Tensor &input : inputs)
    if (input.getType().getElementType().isF32())
      for (double &value : input.floats())
        // As float32 has it: both modes begin with the same numbers.
        value = static_cast<float>(value * (1 + part(generator)));
}

Result<std::vector<double>> mpc::tool::sampleErrors(std::vector<Tensor> &inputs,
                                                    uint64_t seed,
                                                    RunBothModes runBothModes) {
  const std::vector<Tensor> original = inputs;
  std::mt19937_64 generator(seed);
  std::vector<std::vector<double>> errors;
  std::vector<int64_t> sizes;
  for (int sample = 0; sample < kSamples; ++sample) {
    inputs = original;
    nudge(inputs, generator);
    std::vector<Tensor> float64, declared;
    Status status = runBothModes(float64, declared);
    if (!status.ok()) {
      inputs = original;
      return status;
    }
    errors.resize(float64.size());
    sizes.resize(float64.size());
    for (size_t i = 0; i < float64.size(); ++i) {
      sizes[i] = float64[i].size();
      errors[i].push_back(reference::rmsRelativeError(declared[i], float64[i]));
    }
  }
  inputs = original;
  std::vector<double> deviations;
  for (size_t i = 0; i < errors.size(); ++i) {
    std::vector<double> &samples = errors[i];
    // No mean: in a draw a step of the model may fall to the other side.
    std::nth_element(samples.begin(), samples.begin() + kSamples / 2,
                     samples.end());
    auto count = static_cast<double>(std::max<int64_t>(sizes[i], 1));
    // The median of a root mean square of normal numbers, nearly.
    deviations.push_back(samples[kSamples / 2] / (1 - 0.3255 / count));
  }
  return deviations;
}
