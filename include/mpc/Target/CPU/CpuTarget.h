//===- CpuTarget.h - what the CPU backend may use ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ISA levels and the facts of each that decide schedules.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_CPUTARGET_H
#define MPC_TARGET_CPU_CPUTARGET_H

#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>

namespace mpc {

/// Instruction sets that code is generated for, weakest first; those with Vnni
/// add vpdpbusd to the one before. Emulated ones plan as for the level in their
/// names and compute what its units' instructions document with those of Avx2,
/// so that their kernels are tested on any machine.
enum class CpuIsa {
  Avx2,
  AvxVnni,
  Avx512,
  Avx512Vnni,
  Avx512Bf16,
  Amx,
  AmxFp16,
  EmulatedAvxVnni,
  EmulatedAvx512Vnni,
  EmulatedBf16,
  EmulatedAmx,
  EmulatedAmxFp16
};

/// A CPU that code is generated for. Immutable; cheap to copy.
struct CpuTarget {
  CpuIsa isa = CpuIsa::Avx2;
  /// The level that kernels are planned for: its own, or the emulated one.
  CpuIsa planned() const {
    switch (isa) {
    case CpuIsa::EmulatedAvxVnni:
      return CpuIsa::AvxVnni;
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
  /// Whether code has AVX-512's instructions: masks, vscalef.
  bool hasAvx512() const { return lanes() == 16 && !emulatesUnits(); }
  /// Whether vdpbf16ps multiplies bf16, and whether arithmetic stands for it.
  bool hasDotBf16() const { return planned() >= CpuIsa::Avx512Bf16; }
  /// Whether vpdpbusd multiplies 8-bit integers: every core with vdpbf16ps has
  /// it.
  bool hasDotInt8() const {
    return planned() != CpuIsa::Avx2 && planned() != CpuIsa::Avx512;
  }
  /// Whether tiles multiply bf16 and 8-bit integers, vdpbf16ps and vpdpbusd
  /// what is no tile.
  bool hasTiles() const { return planned() >= CpuIsa::Amx; }
  /// Rows of the matrix micro-kernel's accumulator block.
  int64_t blockRows() const { return lanes() == 8 ? 6 : 12; }
  /// Columns of the block, which is the panel width of packed constants.
  int64_t blockColumns() const { return 2 * lanes(); }
  /// The level's name: "avx2", "avxvnni", "avx512", "avx512vnni",
  /// "avx512bf16", "amx", "amxfp16", those with units with "-emulated" behind
  /// it or not.
  llvm::StringRef name() const;
  /// The level as a target.
  TargetInfo info() const;
  /// LLVM CPU name and feature string that code is generated with.
  std::string llvmCpu() const;
  std::string llvmFeatures() const;

  /// The level of a target; nullopt where no code for a CPU is generated for
  /// it.
  static std::optional<CpuTarget> of(const TargetInfo &target);
  /// The names of levels whose units arithmetic can stand for, weakest first.
  static llvm::SmallVector<llvm::StringRef> emulatedLevels();
  /// The levels that this machine can run, weakest first; empty below AVX2.
  static llvm::SmallVector<CpuIsa> available();
};

} // namespace mpc

#endif // MPC_TARGET_CPU_CPUTARGET_H
