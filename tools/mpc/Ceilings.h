//===- Ceilings.h - what the machine can do at most -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CEILINGS_H
#define MPC_TOOLS_MPC_CEILINGS_H

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tool {

/// Measured upper bounds of this machine.
struct Ceilings {
  /// Multiply-adds count as two.
  double flopsPerSecond = 0;
  /// Bytes per second of reading a working set over and over, by its size in
  /// bytes, smallest first: the caches and then the memory.
  std::vector<std::pair<size_t, double>> bytesPerSecond;

  /// Seconds that work of this size takes at least, if its data lay in the
  /// smallest cache that holds it.
  double leastSeconds(double flops, double bytes) const;
};

/// Measures with `threads` threads for some tens of milliseconds: registers
/// full of what multiplies f32, or bf16, fastest at the level `isa`
/// ("avx512", "avx2"), and reading.
Ceilings measureCeilings(const std::string &isa, bool ofBf16, int threads);
/// The first of both alone.
double measureFlopsPerSecond(const std::string &isa, bool ofBf16, int threads);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CEILINGS_H
