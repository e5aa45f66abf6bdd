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
/// add vpdpbusd to the one before. The last two plan as for Avx512Bf16 and Amx
/// and compute what the unit's instructions document with those of Avx2, so
/// that their kernels are tested on any machine.
enum class CpuIsa {
  Avx2,
  AvxVnni,
  Avx512,
  Avx512Vnni,
  Avx512Bf16,
  Amx,
  EmulatedBf16,
  EmulatedAmx
};

/// A CPU that code is generated for. Immutable; cheap to copy.
struct CpuTarget {
  CpuIsa isa = CpuIsa::Avx2;
  /// 32-bit lanes of one register: 8 or 16.
  int64_t lanes() const { return isa <= CpuIsa::AvxVnni ? 8 : 16; }
  /// Vector registers: 16 or 32.
  int64_t registers() const { return 2 * lanes(); }
  /// Whether code has AVX-512's instructions: masks, vscalef.
  bool hasAvx512() const { return lanes() == 16 && !emulatesUnits(); }
  /// Whether vdpbf16ps multiplies bf16, and whether arithmetic stands for it.
  bool hasDotBf16() const { return isa >= CpuIsa::Avx512Bf16; }
  /// Whether vpdpbusd multiplies 8-bit integers: every core with vdpbf16ps has
  /// it.
  bool hasDotInt8() const {
    return isa != CpuIsa::Avx2 && isa != CpuIsa::Avx512;
  }
  /// Whether tiles multiply bf16, and vdpbf16ps what is no tile.
  bool hasTiles() const {
    return isa == CpuIsa::Amx || isa == CpuIsa::EmulatedAmx;
  }
  bool emulatesUnits() const {
    return isa == CpuIsa::EmulatedBf16 || isa == CpuIsa::EmulatedAmx;
  }
  /// Rows of the matrix micro-kernel's accumulator block.
  int64_t blockRows() const { return lanes() == 8 ? 6 : 12; }
  /// Columns of the block, which is the panel width of packed constants.
  int64_t blockColumns() const { return 2 * lanes(); }
  /// The level's name: "avx2", "avxvnni", "avx512", "avx512vnni",
  /// "avx512bf16", "amx", or one of the latter two with "-emulated" behind it.
  llvm::StringRef name() const;
  /// The level as a target.
  TargetInfo info() const;
  /// LLVM CPU name and feature string that code is generated with.
  std::string llvmCpu() const;
  std::string llvmFeatures() const;

  /// The level of a target; nullopt where no code for a CPU is generated for
  /// it.
  static std::optional<CpuTarget> of(const TargetInfo &target);
  /// The levels that this machine can run, weakest first; empty below AVX2.
  static llvm::SmallVector<CpuIsa> available();
};

} // namespace mpc

#endif // MPC_TARGET_CPU_CPUTARGET_H
