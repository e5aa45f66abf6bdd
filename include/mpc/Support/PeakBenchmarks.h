//===- PeakBenchmarks.h - peak-throughput microbenchmarks -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops of a single instruction, timed to measure the peak throughput of a
// core's vector or tile units, for roofline ceilings and kernel selection.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_PEAKBENCHMARKS_H
#define MPC_SUPPORT_PEAKBENCHMARKS_H

#include <cstdint>
#include <string_view>

namespace mpc {

/// An instruction of the vector or tile units, or the two-instruction sequence
/// of an 8-bit integer dot product without a dedicated instruction.
enum class PeakBenchmark {
  MultiplyAdd256,
  MultiplyAdd512,
  DotBf16,
  TileBf16,
  PairsInt16On256, ///< vpmaddwd and an addition
  PairsInt16On512,
  DotInt16On256, ///< vpdpwssd, which fuses both
  DotInt16On512,
  DotInt8On256, ///< vpdpbusd
  DotInt8On512,
  TileInt8,
};

/// Operand types: f32, bf16, unsigned by signed bytes, or bytes of other
/// signedness.
enum class UnitFactors { Float32, BFloat16, MixedBytes, OtherBytes };

/// Returns the fastest instruction for `factors` at an instruction-set level
/// ("avx512").
PeakBenchmark peakBenchmarkOf(std::string_view level, UnitFactors factors);

/// Executes the instruction on this thread, `rounds` times some hundreds of it,
/// and returns the number of operations (a multiply-add is two). The machine
/// must support the instruction.
double runPeakBenchmark(PeakBenchmark loop, int64_t rounds);

/// Returns the peak operations per second of a few short runs on this thread.
double measureUnitPeak(PeakBenchmark loop);

} // namespace mpc

#endif // MPC_SUPPORT_PEAKBENCHMARKS_H
