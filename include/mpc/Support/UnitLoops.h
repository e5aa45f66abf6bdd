//===- UnitLoops.h - what a core's units can do at most ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops of nothing but one instruction, to be timed: as ceilings, and to tell
// whether a unit pays.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_UNITLOOPS_H
#define MPC_SUPPORT_UNITLOOPS_H

#include <cstdint>
#include <string_view>

namespace mpc {

/// One instruction of the vector units, or the two of which products of 8-bit
/// integers consist that have no instruction.
enum class UnitLoop {
  MultiplyAdd256,
  MultiplyAdd512,
  DotBf16,
  TileBf16,
  PairsInt16On256, ///< vpmaddwd and an addition
  PairsInt16On512,
  DotInt16On256, ///< vpdpwssd, which is both of them
  DotInt16On512,
  DotInt8On256, ///< vpdpbusd
  DotInt8On512,
  TileInt8,
};

/// What an instruction multiplies: bytes of which the left ones have no sign
/// and the right ones have, or bytes of other signs.
enum class UnitFactors { Float32, BFloat16, MixedBytes, OtherBytes };

/// The fastest instruction in code of a CPU's level ("avx512") for `factors`.
UnitLoop unitLoopOf(std::string_view level, UnitFactors factors);

/// Executes the instruction on this thread, `rounds` times some hundreds of
/// them, and returns the operations done (an addition and a multiplication are
/// two). The machine must have the instruction.
double runUnitLoop(UnitLoop loop, int64_t rounds);

/// Operations per second of a few short runs on this thread, the best of them.
double probeUnit(UnitLoop loop);

} // namespace mpc

#endif // MPC_SUPPORT_UNITLOOPS_H
