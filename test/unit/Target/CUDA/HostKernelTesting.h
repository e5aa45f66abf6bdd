//===- HostKernelTesting.h - what tests of host kernels share ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_HOSTKERNELTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_HOSTKERNELTESTING_H

#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "gtest/gtest.h"

#include <cstring>
#include <random>

namespace mpc {

/// Compiles a text whose errors are errors of the test.
inline HostModule compileKernels(const std::string &text,
                                 const std::vector<std::string> &kernels,
                                 bool checks = true) {
  HostKernelOptions options;
  options.compiler = MPC_HOST_KERNEL_COMPILER;
  options.checks = checks;
  Result<HostModule> module = HostModule::compile(text, kernels, options);
  if (!module.ok()) {
    ADD_FAILURE() << module.status().toString();
    abort();
  }
  return std::move(*module);
}

/// A launch of `blocks` blocks of `threads` threads.
inline HostLaunch grid(int blocks, int threads,
                       ThreadOrder order = ThreadOrder::Ascending) {
  HostLaunch launch;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.order = order;
  return launch;
}

inline const ThreadOrder kOrders[] = {
    ThreadOrder::Ascending, ThreadOrder::Descending, ThreadOrder::Shuffled};

inline std::vector<float> randomFloats(size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float &value : values)
    value = normal(random);
  return values;
}

inline uint32_t floatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float floatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The value of a 16-bit pattern, from the definition of the format.
inline double valueOf16(uint16_t bits, int exponentBits) {
  int mantissaBits = 15 - exponentBits, bias = (1 << (exponentBits - 1)) - 1;
  int exponent = bits >> mantissaBits & ((1 << exponentBits) - 1);
  int mantissa = bits & ((1 << mantissaBits) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits),
                           exponent - bias - mantissaBits);
}
inline constexpr int kHalf = 5, kBfloat16 = 8;

/// A pattern of 16 bits whose value is near a small random number.
inline std::vector<uint16_t> random16(size_t count, int exponentBits,
                                      unsigned seed = 1) {
  std::vector<uint16_t> values;
  for (float value : randomFloats(count, seed)) {
    // Eighths between -4 and 4 are exact in both formats.
    float eighths = std::round(std::min(4.f, std::max(-4.f, value)) * 8) / 8;
    int exponent;
    double mantissa = std::frexp(std::fabs(eighths), &exponent);
    int mantissaBits = 15 - exponentBits, bias = (1 << (exponentBits - 1)) - 1;
    int bits = 0;
    if (eighths != 0)
      bits = ((exponent - 1 + bias) << mantissaBits) +
             static_cast<int>((2 * mantissa - 1) * (1 << mantissaBits));
    values.push_back(static_cast<uint16_t>(bits | (eighths < 0) << 15));
  }
  return values;
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_HOSTKERNELTESTING_H
