//===- PeakRates.h - roofline: measured peak rates --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PEAKRATES_H
#define MPC_TOOLS_MPC_PEAKRATES_H

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tool {

/// Measured roofline of this machine: peak compute and bandwidths.
struct PeakRates {
  /// Peak compute rate; a multiply-add counts as two.
  double flopsPerSecond = 0;
  /// Bandwidth in bytes per second by working-set size in bytes, ascending: the
  /// caches, then DRAM.
  std::vector<std::pair<size_t, double>> bytesPerSecond;

  /// Returns the roofline bound in seconds for this much work, with data in the
  /// smallest cache that holds it.
  double leastSeconds(double flops, double bytes) const;
};

/// Measures with `threads` threads for some tens of milliseconds: the fastest
/// f32, or bf16, instruction of level `isa` ("avx512", "avx2") on registers,
/// and read bandwidths.
PeakRates measurePeakRates(const std::string &isa, bool ofBf16, int threads);
/// Measures only the compute rate.
double measureFlopsPerSecond(const std::string &isa, bool ofBf16, int threads);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PEAKRATES_H
