//===- TileProducts.h - bit-exact matmuls in tiles --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by the tests of bf16 and f16 tiles: a matmul of random operands, and
// its comparison with the documented arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CPU_TILEPRODUCTS_H
#define MPC_TEST_UNIT_TARGET_CPU_TILEPRODUCTS_H

#include "KernelRunner.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace mpc {

/// Operands of m x k times k x n, row-major, and the bytes of the results.
struct DrawnProduct {
  int64_t m, k, n;
  std::vector<float> x, y;
  std::vector<std::vector<char>> results;

  /// Element `at` of the result, which has f32 elements.
  float result(size_t at) const {
    float value;
    std::memcpy(&value, results[0].data() + 4 * at, 4);
    return value;
  }
};

/// Runs the kernel `text` on `isa` with operand elements from `draw`.
inline DrawnProduct computeDrawn(const std::string &text, cpu::CpuIsa isa,
                                 int64_t m, int64_t k, int64_t n,
                                 llvm::function_ref<double()> draw) {
  DrawnProduct drawn{m, k, n, {}, {}, {}};
  auto drawAll = [&](unsigned index, reference::Tensor &tensor) {
    for (double &value : tensor.floats())
      value = draw();
    (index ? drawn.y : drawn.x)
        .assign(tensor.floats().begin(), tensor.floats().end());
  };
  KernelCheck check;
  check.adjust = drawAll;
  check.results = &drawn.results;
  checkKernel(text, cpu::CpuTarget{isa}, check);
  return drawn;
}

inline float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value)
                                                : value;
}

/// The same bits, or NaN both.
inline bool same(float x, float y) {
  return (std::isnan(x) && std::isnan(y)) ||
         std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
}

/// Compares with Intel's specification of TDPBF16PS and TDPFP16PS, for steps
/// of `step` positions, from a sum of 0. Numbers that are subnormal in f32 are
/// flushed to zero, as bf16 subnormals are; f16 subnormals are not.
inline void expectDocumented(const DrawnProduct &drawn, int64_t step,
                             int round) {
  ASSERT_EQ(drawn.results.size(), 1u);
  for (int64_t i = 0; i < drawn.m; ++i)
    for (int64_t j = 0; j < drawn.n; ++j) {
      float sum = 0;
      for (int64_t first = 0; first < drawn.k; first += step) {
        float halves[2] = {};
        for (int64_t k = first; k < first + step; ++k)
          halves[k % 2] = flushed(std::fma(flushed(drawn.x[i * drawn.k + k]),
                                           flushed(drawn.y[k * drawn.n + j]),
                                           halves[k % 2]));
        sum = flushed(sum + flushed(halves[0] + halves[1]));
      }
      float actual = drawn.result(i * drawn.n + j);
      ASSERT_TRUE(same(actual, sum)) << "round " << round << " [" << i << ", "
                                     << j << "]: " << actual << " and " << sum;
    }
}

inline void expectSame(const DrawnProduct &real, const DrawnProduct &emulated,
                       int round) {
  ASSERT_EQ(real.results.size(), 1u);
  ASSERT_EQ(emulated.results.size(), 1u);
  for (size_t at = 0; at < real.results[0].size() / 4; ++at)
    ASSERT_TRUE(same(real.result(at), emulated.result(at)))
        << "round " << round << ": " << real.result(at) << " and "
        << emulated.result(at);
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CPU_TILEPRODUCTS_H
