//===- RopeScaling.cpp - frequencies of rotary embeddings -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RopeScaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace mpc;
using namespace mpc::checkpoint;

/// Temperature of YaRN's attention for an extension by `factor`.
static double yarnScale(double factor, double scale = 1) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

/// Factor of cosine and sine.
static double attentionFactor(const RopeOptions &options) {
  double factor = options.factor;
  if (options.attentionFactor)
    return *options.attentionFactor;
  if (options.scaling == RopeScaling::Yarn)
    return options.scale && options.scaleAllDim
               ? yarnScale(factor, *options.scale) /
                     yarnScale(factor, *options.scaleAllDim)
               : yarnScale(factor);
  if (options.scaling == RopeScaling::LongRope && factor > 1)
    return std::sqrt(1 + std::log(factor) / std::log(double(options.original)));
  return 1;
}

/// Bounds of YaRN's ramp, in pairs.
static std::pair<double, double> rampBounds(const RopeOptions &options) {
  auto pairOf = [&](double rotations) {
    return double(options.rotary) *
           std::log(double(options.original) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(options.theta));
  };
  double low = pairOf(options.fast), high = pairOf(options.slow);
  if (options.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(options.rotary - 1));
  return {low, low == high ? high + 0.001 : high};
}

/// Returns the frequency of pair `i` in Llama 3.1.
static float llama3Frequency(const RopeOptions &options, float frequency) {
  double original = double(options.original);
  float wavelength = float(2 * std::numbers::pi) / frequency;
  if (wavelength > original / options.low)
    return frequency / float(options.factor);
  if (wavelength < original / options.high)
    return frequency;
  float smooth = (float(original) / wavelength - float(options.low)) /
                 float(options.high - options.low);
  return (1 - smooth) * (frequency / float(options.factor)) +
         smooth * frequency;
}

Rope mpc::checkpoint::makeRope(const RopeOptions &options) {
  Rope rope;
  rope.rotary = options.rotary;
  rope.factor = attentionFactor(options);
  auto [low, high] = rampBounds(options);
  for (int64_t i = 0; i < options.rotary / 2; ++i) {
    float power = std::pow(float(options.theta),
                           float(2 * i) / float(options.rotary)),
          frequency = 1 / power;
    switch (options.scaling) {
    case RopeScaling::None:
    case RopeScaling::Dynamic:
      break;
    case RopeScaling::Linear:
      frequency /= float(options.factor);
      break;
    case RopeScaling::Yarn: {
      auto ramp = float(std::clamp((double(i) - low) / (high - low), 0.0, 1.0));
      frequency =
          1 / (float(options.factor) * power) * ramp + frequency * (1 - ramp);
      break;
    }
    case RopeScaling::Llama3:
      frequency = llama3Frequency(options, frequency);
      break;
    case RopeScaling::LongRope:
      frequency = 1 / (float(options.divisors[i]) * power);
      break;
    }
    rope.frequencies.push_back(frequency);
  }
  return rope;
}

bool mpc::checkpoint::isFinite(const Rope &rope) {
  return std::isfinite(float(rope.factor)) &&
         std::ranges::all_of(rope.frequencies, [](float frequency) {
           return std::isfinite(frequency);
         });
}

int64_t mpc::checkpoint::mostTokensOf(const RopeOptions &options) {
  switch (options.scaling) {
  case RopeScaling::Dynamic:
    return options.positions;
  case RopeScaling::LongRope:
    return options.original;
  default:
    return 0;
  }
}
