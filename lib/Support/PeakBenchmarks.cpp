//===- PeakBenchmarks.cpp - peak-throughput microbenchmarks ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/PeakBenchmarks.h"

#include "mpc/Runtime/TilePermission.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <immintrin.h>
#include <random>

using namespace mpc;

namespace {
/// Number of operands per round; each is multiplied by two factors.
constexpr int64_t kOperands = 384;

/// Random operands, since cores clock lower on changing bits; the bits are also
/// valid bf16 pairs and bytes. They fit in L1.
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

/// A loop of `multiply(sum, operand, factor)` with 2 * `rows` accumulators in
/// registers, to hide a latency of six cycles on two ports if there are enough
/// registers. A macro, since a template would be compiled for the file's
/// instruction set instead of its caller's.
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
#define MPC_PAIRS_INT16_256(sum, x, y)                                         \
  _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
#define MPC_PAIRS_INT16_512(sum, x, y)                                         \
  _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
#define MPC_DOT_BF16(sum, x, y)                                                \
  _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(y))

MPC_UNIT_LOOP(multiplyAdd256, "avx2,fma", __m256, 6, MPC_MULTIPLY_ADD_256)
MPC_UNIT_LOOP(multiplyAdd512, "avx512f,fma", __m512, 12, MPC_MULTIPLY_ADD_512)
MPC_UNIT_LOOP(dotBf16, "avx512f,avx512bf16", __m512, 12, MPC_DOT_BF16)
MPC_UNIT_LOOP(pairsInt16On256, "avx2", __m256i, 6, MPC_PAIRS_INT16_256)
MPC_UNIT_LOOP(pairsInt16On512, "avx512f,avx512bw", __m512i, 6,
              MPC_PAIRS_INT16_512)
MPC_UNIT_LOOP(dotInt16On256, "avx2,avxvnni", __m256i, 6,
              _mm256_dpwssd_avx_epi32)
MPC_UNIT_LOOP(dotInt16On512, "avx512f,avx512vnni", __m512i, 12,
              _mm512_dpwssd_epi32)
MPC_UNIT_LOOP(dotInt8On256, "avx2,avxvnni", __m256i, 6, _mm256_dpbusd_avx_epi32)
MPC_UNIT_LOOP(dotInt8On512, "avx512f,avx512vnni", __m512i, 12,
              _mm512_dpbusd_epi32)

/// Accumulator tiles in a 2 x 2 block, reloading the operand tiles in each
/// step.
#define MPC_TILE_LOOP(name, features, multiply)                                \
  [[gnu::target(features)]] static void name(int64_t rounds) {                 \
    struct {                                                                   \
      uint8_t palette = 1, startRow = 0, reserved[14] = {};                    \
      uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};                \
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};                     \
    } configuration;                                                           \
    const float *values = sharedOperands();                                    \
    permitTiles();                                                             \
    _tile_loadconfig(&configuration);                                          \
    for (int64_t round = 0; round < rounds; ++round)                           \
      for (int64_t first = 0; first < kOperands; first += 64) {                \
        const float *step = values + first * 16;                               \
        _tile_loadd(4, step, 64);                                              \
        _tile_loadd(5, step + 256, 64);                                        \
        _tile_loadd(6, step + 512, 64);                                        \
        _tile_loadd(7, step + 768, 64);                                        \
        multiply(0, 4, 6);                                                     \
        multiply(1, 4, 7);                                                     \
        multiply(2, 5, 6);                                                     \
        multiply(3, 5, 7);                                                     \
      }                                                                        \
    _tile_release();                                                           \
  }

MPC_TILE_LOOP(tileBf16, "amx-tile,amx-bf16", _tile_dpbf16ps)
MPC_TILE_LOOP(tileInt8, "amx-tile,amx-int8", _tile_dpbusd)

PeakBenchmark mpc::peakBenchmarkOf(std::string_view level,
                                   UnitFactors factors) {
  bool hasTiles = level == "amx" || level == "amxfp16",
       isWide = hasTiles || level.substr(0, 6) == "avx512",
       hasDots = hasTiles || level == "avx512bf16" || level == "avx512vnni" ||
                 level == "avxvnni";
  switch (factors) {
  case UnitFactors::BFloat16:
    if (hasTiles)
      return PeakBenchmark::TileBf16;
    if (level == "avx512bf16")
      return PeakBenchmark::DotBf16;
    break;
  case UnitFactors::MixedBytes:
  case UnitFactors::OtherBytes:
    if (hasTiles)
      return PeakBenchmark::TileInt8;
    if (hasDots && factors == UnitFactors::MixedBytes)
      return isWide ? PeakBenchmark::DotInt8On512 : PeakBenchmark::DotInt8On256;
    if (hasDots)
      return isWide ? PeakBenchmark::DotInt16On512
                    : PeakBenchmark::DotInt16On256;
    return isWide ? PeakBenchmark::PairsInt16On512
                  : PeakBenchmark::PairsInt16On256;
  case UnitFactors::Float32:
    break;
  }
  return isWide ? PeakBenchmark::MultiplyAdd512 : PeakBenchmark::MultiplyAdd256;
}

double mpc::runPeakBenchmark(PeakBenchmark loop, int64_t rounds) {
  double lanes = 16;
  switch (loop) {
  case PeakBenchmark::MultiplyAdd256:
    multiplyAdd256(rounds);
    lanes = 8;
    break;
  case PeakBenchmark::MultiplyAdd512:
    multiplyAdd512(rounds);
    break;
  case PeakBenchmark::DotBf16:
    dotBf16(rounds);
    lanes = 32;
    break;
  case PeakBenchmark::TileBf16:
    tileBf16(rounds);
    // A tile product has 16 x 16 accumulators of 32 positions, one per 16
    // operands.
    lanes = 16 * 16;
    break;
  case PeakBenchmark::PairsInt16On256:
    pairsInt16On256(rounds);
    break;
  case PeakBenchmark::PairsInt16On512:
    pairsInt16On512(rounds);
    lanes = 32;
    break;
  case PeakBenchmark::DotInt16On256:
    dotInt16On256(rounds);
    break;
  case PeakBenchmark::DotInt16On512:
    dotInt16On512(rounds);
    lanes = 32;
    break;
  case PeakBenchmark::DotInt8On256:
    dotInt8On256(rounds);
    lanes = 32;
    break;
  case PeakBenchmark::DotInt8On512:
    dotInt8On512(rounds);
    lanes = 64;
    break;
  case PeakBenchmark::TileInt8:
    tileInt8(rounds);
    lanes = 16 * 32;
    break;
  }
  return 2 * 2 * lanes * kOperands * double(rounds);
}

double mpc::measureUnitPeak(PeakBenchmark loop) {
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    auto start = std::chrono::steady_clock::now();
    double operations = runPeakBenchmark(loop, 256);
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::max(best, operations / std::max(took.count(), 1e-9));
  }
  return best;
}
