//===- LossScaleChoice.cpp - choice of a loss scale -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Works on histograms by exponent: f16 flushes elements below 2^-25, and stores
// those below 2^-14 with fewer bits.
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/LossScaleChoice.h"

#include <algorithm>
#include <cmath>

using namespace mpc;

static constexpr int kFlushed = -25, kNormal = -14;
/// log2 of the maximum scaled magnitude: a quarter of f16's largest.
static constexpr int kLargest = 14;
/// Maximum power, also that of preset loss scales.
static constexpr int kMostPower = 24;
static constexpr double kWorthNaming = 0.01;

namespace {
struct Losses {
  int64_t elements = 0, flushed = 0, subnormal = 0;

  void add(const RecordedRange &range, int power) {
    for (auto [exponent, count] : range.exponents) {
      elements += count;
      flushed += exponent + power < kFlushed ? count : 0;
      subnormal += exponent + power >= kFlushed && exponent + power < kNormal
                       ? count
                       : 0;
    }
  }
  double share(int64_t part) const {
    return elements ? double(part) / double(elements) : 0;
  }
};
} // namespace

double LossScaleChoice::scale() const { return std::ldexp(1.0, power); }

LossScaleChoice mpc::chooseLossScale(const RangeRecorder &gradients) {
  LossScaleChoice choice;
  for (const auto &[name, range] : gradients.get())
    if (range.largest > choice.largestMagnitude) {
      choice.largest = name;
      choice.largestMagnitude = range.largest;
    }
  if (choice.largestMagnitude == 0)
    return choice;
  auto lossesAt = [&](int power) {
    Losses losses;
    for (const auto &[name, range] : gradients.get())
      losses.add(range, power);
    return losses;
  };
  int most = std::clamp(kLargest - std::ilogb(choice.largestMagnitude) - 1, 0,
                        kMostPower);
  Losses unscaled = lossesAt(0), best = unscaled;
  for (int power = 1; power <= most; ++power) {
    Losses losses = lossesAt(power);
    if (std::pair(losses.flushed, losses.subnormal) <
        std::pair(best.flushed, best.subnormal)) {
      best = losses;
      choice.power = power;
    }
  }
  choice.flushed = best.share(best.flushed);
  choice.subnormal = best.share(best.subnormal);
  choice.flushedUnscaled = unscaled.share(unscaled.flushed);
  choice.subnormalUnscaled = unscaled.share(unscaled.subnormal);
  for (const auto &[name, range] : gradients.get()) {
    Losses losses;
    losses.add(range, choice.power);
    if (losses.share(losses.flushed) > kWorthNaming)
      choice.flushing.emplace_back(name, losses.share(losses.flushed));
  }
  std::sort(choice.flushing.begin(), choice.flushing.end(),
            [](const auto &a, const auto &b) {
              return std::pair(-a.second, a.first) <
                     std::pair(-b.second, b.first);
            });
  return choice;
}
