//===- PeakRates.cpp - measured peak rates of the machine -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeakRates.h"

#include "mpc/Support/PeakBenchmarks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <immintrin.h>
#include <thread>
#include <vector>

using namespace mpc;
using namespace mpc::tool;

__attribute__((target("avx2"))) static uint64_t readLoop(const uint64_t *data,
                                                         size_t words) {
  __m256i sums[8];
  for (__m256i &sum : sums)
    sum = _mm256_setzero_si256();
  for (size_t i = 0; i + 32 <= words; i += 32)
    for (int j = 0; j < 8; ++j)
      sums[j] = _mm256_xor_si256(
          sums[j], _mm256_loadu_si256(
                       reinterpret_cast<const __m256i *>(data + i + 4 * j)));
  for (int j = 1; j < 8; ++j)
    sums[0] = _mm256_xor_si256(sums[0], sums[j]);
  return uint64_t(_mm256_extract_epi64(sums[0], 0));
}

/// Prevents dead-code elimination of measured loops.
static std::atomic<uint64_t> sink;

/// Returns the minimum time of `work(thread)` on all threads at once, in
/// seconds.
template <typename Work>
static double bestSeconds(int threads, int repetitions, Work work) {
  double best = 1e30;
  for (int r = 0; r < repetitions; ++r) {
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t)
      others.emplace_back([&, t] { work(t); });
    work(0);
    for (std::thread &other : others)
      other.join();
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

double PeakRates::leastSeconds(double flops, double bytes) const {
  double seconds = 0;
  if (flopsPerSecond > 0)
    seconds = std::max(seconds, flops / flopsPerSecond);
  for (size_t i = 0; i < bytesPerSecond.size(); ++i) {
    bool fits = bytes <= double(bytesPerSecond[i].first);
    if (fits || i + 1 == bytesPerSecond.size()) {
      seconds = std::max(seconds, bytes / bytesPerSecond[i].second);
      break;
    }
  }
  return seconds;
}

double mpc::tool::measureFlopsPerSecond(const std::string &isa, bool ofBf16,
                                        int threads) {
  PeakBenchmark loop = peakBenchmarkOf(isa, ofBf16 ? UnitFactors::BFloat16
                                                   : UnitFactors::Float32);
  constexpr int64_t kRounds = 1 << 13;
  double operations = runPeakBenchmark(loop, kRounds);
  double seconds =
      bestSeconds(threads, 5, [&](int) { runPeakBenchmark(loop, kRounds); });
  return double(threads) * operations / seconds;
}

PeakRates mpc::tool::measurePeakRates(const std::string &isa, bool ofBf16,
                                      int threads) {
  PeakRates ceilings;
  ceilings.flopsPerSecond = measureFlopsPerSecond(isa, ofBf16, threads);

  // Total working-set sizes over all threads; each thread reads its own part.
  for (size_t size : {size_t(1) << 15, size_t(1) << 18, size_t(1) << 20,
                      size_t(1) << 23, size_t(3) << 23, size_t(1) << 26}) {
    size_t own = std::max<size_t>(size / threads, 4096);
    size_t passes = std::max<size_t>((size_t(1) << 26) / own / threads, 1);
    std::vector<std::vector<uint64_t>> data(threads,
                                            std::vector<uint64_t>(own / 8, 1));
    double seconds = bestSeconds(threads, 4, [&](int thread) {
      for (size_t pass = 0; pass < passes; ++pass)
        sink += readLoop(data[thread].data(), data[thread].size());
    });
    ceilings.bytesPerSecond.emplace_back(
        size, double(threads) * double(passes * own) / seconds);
  }
  return ceilings;
}
