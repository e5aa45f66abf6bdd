//===- Sampler.cpp - token sampling ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/Sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

using namespace mpc;

static Status outside(const char *what, double value, const char *range) {
  return Status(StatusCode::InvalidArgument, "sampling",
                std::string(what) + " is " + std::to_string(value) +
                    ", but must be " + range);
}

Result<Sampler> Sampler::create(const SamplingOptions &options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return outside("temperature", options.temperature, "0 or more");
  if (options.topK < 0)
    return outside("top-k", double(options.topK), "0 or more");
  if (!(options.topP > 0 && options.topP <= 1))
    return outside("top-p", options.topP, "above 0 and at most 1");
  if (!(options.minP >= 0 && options.minP <= 1))
    return outside("min-p", options.minP, "from 0 to 1");
  if (!(options.repetitionPenalty > 0) || std::isinf(options.repetitionPenalty))
    return outside("repetition penalty", options.repetitionPenalty, "above 0");
  return Sampler(options);
}

/// Returns the maximum, or nullopt if a number is NaN. Eight lanes vectorize
/// for any target; a scalar loop takes as long as a layer of a small decoder.
static std::optional<float> largestOf(std::span<const float> numbers) {
  constexpr size_t kLanes = 8;
  std::array<float, kLanes> largest;
  largest.fill(-std::numeric_limits<float>::infinity());
  std::array<int32_t, kLanes> isNone = {};
  size_t whole = numbers.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      float number = numbers[i + lane];
      largest[lane] = largest[lane] < number ? number : largest[lane];
      isNone[lane] |= number != number;
    }
  for (size_t i = whole; i < numbers.size(); ++i) {
    largest[0] = std::max(largest[0], numbers[i]);
    isNone[0] |= std::isnan(numbers[i]);
  }
  if (std::ranges::any_of(isNone, [](int32_t none) { return none != 0; }))
    return std::nullopt;
  return *std::ranges::max_element(largest);
}

void Sampler::observe(std::span<const int64_t> tokens) {
  if (options.repetitionPenalty != 1)
    seen.insert(tokens.begin(), tokens.end());
}

Result<int64_t> Sampler::next(std::span<const float> logits) {
  if (options.repetitionPenalty == 1)
    return sample(logits);
  std::vector<float> penalized(logits.begin(), logits.end());
  auto penalty = float(options.repetitionPenalty);
  for (int64_t token : seen)
    if (token >= 0 && token < int64_t(penalized.size())) {
      float &logit = penalized[token];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
  Result<int64_t> token = sample(penalized);
  if (token.ok())
    seen.insert(*token);
  return token;
}

Result<int64_t> Sampler::sample(std::span<const float> logits) {
  if (logits.empty())
    return Status(StatusCode::InvalidArgument, "sampling",
                  "there are no logits to sample from");
  std::optional<float> most = largestOf(logits);
  if (!most) {
    auto found = std::find_if(logits.begin(), logits.end(),
                              [](float logit) { return std::isnan(logit); });
    return Status(
        StatusCode::InvalidArgument, "sampling",
        "the logit of token " + std::to_string(found - logits.begin()) +
            " is NaN; values of the model overflow, so use wider types");
  }
  auto largest = std::find(logits.begin(), logits.end(), *most);
  // Among infinite logits the first has all the probability.
  if (options.temperature == 0 || std::isinf(*largest))
    return largest - logits.begin();

  std::vector<int64_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  auto isLikelier = [&](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (options.topK > 0 && options.topK < int64_t(tokens.size())) {
    std::nth_element(tokens.begin(), tokens.begin() + options.topK,
                     tokens.end(), isLikelier);
    tokens.resize(options.topK);
  }
  std::sort(tokens.begin(), tokens.end(), isLikelier);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t token : tokens)
    sum += weights.emplace_back(
        std::exp((double(logits[token]) - *largest) / options.temperature));
  size_t kept = 0;
  // The largest weight is 1.
  for (double mass = 0; kept < tokens.size() && mass < options.topP * sum &&
                        weights[kept] >= options.minP;)
    mass += weights[kept++];
  double left = std::accumulate(weights.begin(), weights.begin() + kept, 0.0) *
                double(generator() >> 11) * 0x1p-53;
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0)
      return tokens[i];
  }
  return tokens[kept - 1];
}
