//===- CpuTarget.h - ISA levels of the CPU backend --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ISA levels and the properties of each that scheduling depends on.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_CPUTARGET_H
#define MPC_TARGET_CPU_CPUTARGET_H

#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>

namespace mpc::cpu {

/// ISA levels, weakest first; a Vnni level adds vpdpbusd to the level before.
/// An emulated level is scheduled like the level in its name, but implements
/// its dot-product and tile instructions with AVX2 code, so that its kernels
/// can be tested on any machine.
enum class CpuIsa {
  Avx2,
  AvxVnni,
  Avx512,
  Avx512Vnni,
  Avx512Bf16,
  Amx,
  AmxFp16,
  EmulatedAvxVnni,
  EmulatedAvx512,
  EmulatedAvx512Vnni,
  EmulatedBf16,
  EmulatedAmx,
  EmulatedAmxFp16
};

/// A CPU to generate code for. Immutable; cheap to copy.
struct CpuTarget {
  CpuIsa isa = CpuIsa::Avx2;
  /// Whether results are those of all levels of the bit class (class `amx` with
  /// tiles, else `vector`; docs/Explanation/SummationOrder.md).
  bool isReproducible = false;
  /// ISA level that kernels are scheduled for: `isa`, or the emulated level.
  CpuIsa planned() const {
    switch (isa) {
    case CpuIsa::EmulatedAvxVnni:
      return CpuIsa::AvxVnni;
    case CpuIsa::EmulatedAvx512:
      return CpuIsa::Avx512;
    case CpuIsa::EmulatedAvx512Vnni:
      return CpuIsa::Avx512Vnni;
    case CpuIsa::EmulatedBf16:
      return CpuIsa::Avx512Bf16;
    case CpuIsa::EmulatedAmx:
      return CpuIsa::Amx;
    case CpuIsa::EmulatedAmxFp16:
      return CpuIsa::AmxFp16;
    default:
      return isa;
    }
  }
  bool emulatesUnits() const { return planned() != isa; }
  /// 32-bit lanes of one register: 8 or 16.
  int64_t lanes() const { return planned() <= CpuIsa::AvxVnni ? 8 : 16; }
  /// Vector registers: 16 or 32.
  int64_t registers() const { return 2 * lanes(); }
  /// 32-bit lanes of vectors whose elements are summed: those of a register, or
  /// 16 in a reproducible order.
  int64_t summedLanes() const { return isReproducible ? 16 : lanes(); }
  /// Whether AVX-512 instructions (masks, vscalef) are available.
  bool hasAvx512() const { return lanes() == 16 && !emulatesUnits(); }
  /// Whether vdpbf16ps is available or emulated. Class `vector` sums products
  /// of bf16 by f32 FMA.
  bool hasDotBf16() const {
    return planned() >= (isReproducible ? CpuIsa::Amx : CpuIsa::Avx512Bf16);
  }
  /// Whether vpdpbusd is available or emulated; implied by vdpbf16ps.
  bool hasDotInt8() const {
    return planned() != CpuIsa::Avx2 && planned() != CpuIsa::Avx512;
  }
  /// Whether AMX tiles are available or emulated, for bf16 and int8. Other code
  /// then uses vdpbf16ps and vpdpbusd.
  bool hasTiles() const { return planned() >= CpuIsa::Amx; }
  /// Rows of the GEMM micro-kernel's accumulator tile.
  int64_t blockRows() const { return lanes() == 8 ? 6 : 12; }
  /// Columns of that tile, the panel width of packed constants.
  int64_t blockColumns() const { return 2 * lanes(); }
  /// Name of the level: "avx2", "avxvnni", "avx512", "avx512vnni",
  /// "avx512bf16", "amx", "amxfp16", or one with "-emulated" appended.
  llvm::StringRef name() const;
  /// The level as a TargetInfo.
  TargetInfo info() const;
  /// LLVM CPU name and feature string for code generation.
  std::string llvmCpu() const;
  std::string llvmFeatures() const;

  /// Returns the level of `target`, or nullopt if it is not a CPU target.
  static std::optional<CpuTarget> of(const TargetInfo &target);
  /// Names of the levels with an emulated variant, weakest first.
  static llvm::SmallVector<llvm::StringRef> emulatedLevels();
  /// Levels that this machine can run, weakest first; empty below AVX2.
  static llvm::SmallVector<CpuIsa> available();
};

} // namespace mpc::cpu

#endif // MPC_TARGET_CPU_CPUTARGET_H
