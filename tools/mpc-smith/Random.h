//===- Random.h - Platform-independent random numbers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The standard specifies the output of its engines but not of its
// distributions. These are the same with every library.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_RANDOM_H
#define MPC_TOOLS_SMITH_RANDOM_H

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <random>
#include <vector>

namespace mpc::smith {

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {
    // The first outputs of neighbouring seeds are correlated.
    engine.discard(16);
  }

  uint64_t bits() { return engine(); }
  /// Uniform in [0, bound); 0 where `bound` is not positive.
  int64_t below(int64_t bound) {
    return bound <= 0 ? 0 : int64_t(engine() % uint64_t(bound));
  }
  /// Uniform in [low, high].
  int64_t range(int64_t low, int64_t high) {
    return low + below(high - low + 1);
  }
  bool chance(int percent) { return below(100) < percent; }
  /// Uniform in [low, high).
  double real(double low, double high) {
    return low + (high - low) * (double(engine() >> 11) * 0x1p-53);
  }
  double normal() {
    double radius = std::sqrt(-2 * std::log(1 - real(0, 1)));
    return radius * std::cos(2 * std::numbers::pi * real(0, 1));
  }
  template <typename T> T pick(std::initializer_list<T> values) {
    return values.begin()[below(int64_t(values.size()))];
  }
  template <typename T> const T &pick(const std::vector<T> &values) {
    return values[size_t(below(int64_t(values.size())))];
  }
  template <typename T> void shuffle(std::vector<T> &values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[size_t(below(int64_t(i)))]);
  }

private:
  std::mt19937_64 engine;
};

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_RANDOM_H
