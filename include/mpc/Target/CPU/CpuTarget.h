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

/// Instruction sets that code is generated for, weakest first.
enum class CpuIsa { Avx2, Avx512 };

/// A CPU that code is generated for. Immutable; cheap to copy.
struct CpuTarget {
  CpuIsa isa = CpuIsa::Avx2;
  /// 32-bit lanes of one register: 8 or 16.
  int64_t lanes() const { return isa == CpuIsa::Avx512 ? 16 : 8; }
  /// Vector registers: 16 or 32.
  int64_t registers() const { return isa == CpuIsa::Avx512 ? 32 : 16; }
  /// Rows of the matrix micro-kernel's accumulator block.
  int64_t blockRows() const { return isa == CpuIsa::Avx512 ? 12 : 6; }
  /// Columns of the block, which is the panel width of packed constants.
  int64_t blockColumns() const { return 2 * lanes(); }
  /// The level's name: "avx2", "avx512".
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
