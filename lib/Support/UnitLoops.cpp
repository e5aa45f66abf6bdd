//===- UnitLoops.cpp - what a core's units can do at most -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/UnitLoops.h"

#include "mpc/Runtime/TilePermission.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <immintrin.h>
#include <random>

using namespace mpc;

namespace {
/// Operands of one round; each meets two factors.
constexpr int64_t kOperands = 384;

/// Operands, random because a core clocks lower on changing bits; any bits are
/// two bf16 numbers as well. They stay in the first-level cache.
struct alignas(64) Operands {
  Operands() {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (float &value : values) {
      uint32_t halves = 0;
      for (int shift : {0, 16}) {
        float drawn = normal(engine);
        uint32_t bits;
        std::memcpy(&bits, &drawn, 4);
        halves |= bits >> 16 << shift;
      }
      std::memcpy(&value, &halves, 4);
    }
  }
  float values[(kOperands + 2) * 16];
};
} // namespace

static float *sharedOperands() {
  static Operands operands;
  return operands.values;
}

/// A loop of `multiply(sum, operand, factor)` with `rows` times two sums in
/// registers, which hide latencies of six cycles on two ports where there are
/// registers enough. A macro, since a template is compiled for the file's
/// instructions and not for those of its caller.
#define MPC_UNIT_LOOP(name, features, Vector, rows, multiply)                  \
  [[gnu::target(features)]] static void name(int64_t rounds) {                 \
    constexpr size_t kLanes = sizeof(Vector) / sizeof(float);                  \
    float *values = sharedOperands();                                          \
    Vector sums[2 * (rows)]{}, factors[2];                                     \
    std::memcpy(factors, values + kOperands * kLanes, sizeof(factors));        \
    for (int64_t round = 0; round < rounds; ++round) {                         \
      asm volatile("" : : "r"(values) : "memory");                             \
      for (int64_t first = 0; first < kOperands; first += (rows))              \
        for (int i = 0; i < (rows); ++i) {                                     \
          Vector operand;                                                      \
          std::memcpy(&operand, values + (first + i) * kLanes,                 \
                      sizeof(Vector));                                         \
          sums[2 * i] = multiply(sums[2 * i], operand, factors[0]);            \
          sums[2 * i + 1] = multiply(sums[2 * i + 1], operand, factors[1]);    \
        }                                                                      \
    }                                                                          \
    asm volatile("" : "+m"(sums));                                             \
  }
#define MPC_MULTIPLY_ADD_256(sum, x, y) _mm256_fmadd_ps(x, y, sum)
#define MPC_MULTIPLY_ADD_512(sum, x, y) _mm512_fmadd_ps(x, y, sum)
#define MPC_DOT_BF16(sum, x, y)                                                \
  _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(y))

MPC_UNIT_LOOP(multiplyAdd256, "avx2,fma", __m256, 6, MPC_MULTIPLY_ADD_256)
MPC_UNIT_LOOP(multiplyAdd512, "avx512f,fma", __m512, 12, MPC_MULTIPLY_ADD_512)
MPC_UNIT_LOOP(dotBf16, "avx512f,avx512bf16", __m512, 12, MPC_DOT_BF16)

/// Tiles of sums in a two by two block, those of a step loaded anew.
[[gnu::target("amx-tile,amx-bf16")]] static void tileBf16(int64_t rounds) {
  struct {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } configuration;
  const float *values = sharedOperands();
  permitTiles();
  _tile_loadconfig(&configuration);
  for (int64_t round = 0; round < rounds; ++round)
    for (int64_t first = 0; first < kOperands; first += 64) {
      const float *step = values + first * 16;
      _tile_loadd(4, step, 64);
      _tile_loadd(5, step + 256, 64);
      _tile_loadd(6, step + 512, 64);
      _tile_loadd(7, step + 768, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  _tile_release();
}

UnitLoop mpc::unitLoopOf(std::string_view level, bool ofBf16) {
  bool hasTiles = level == "amx" || level == "amxfp16";
  if (hasTiles && ofBf16)
    return UnitLoop::TileBf16;
  if (level == "avx512bf16" && ofBf16)
    return UnitLoop::DotBf16;
  for (std::string_view wide : {"avx512", "avx512vnni", "avx512bf16"})
    if (level == wide || hasTiles)
      return UnitLoop::MultiplyAdd512;
  return UnitLoop::MultiplyAdd256;
}

double mpc::runUnitLoop(UnitLoop loop, int64_t rounds) {
  double lanes = 16;
  switch (loop) {
  case UnitLoop::MultiplyAdd256:
    multiplyAdd256(rounds);
    lanes = 8;
    break;
  case UnitLoop::MultiplyAdd512:
    multiplyAdd512(rounds);
    break;
  case UnitLoop::DotBf16:
    dotBf16(rounds);
    lanes = 32;
    break;
  case UnitLoop::TileBf16:
    tileBf16(rounds);
    // A product of tiles has 16 times 16 sums of 32 positions, and there is one
    // for every 16 operands.
    lanes = 16 * 16;
    break;
  }
  return 2 * 2 * lanes * kOperands * double(rounds);
}

double mpc::probeUnit(UnitLoop loop) {
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    auto start = std::chrono::steady_clock::now();
    double operations = runUnitLoop(loop, 256);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / std::max(took.count(), 1e-9));
  }
  return best;
}
