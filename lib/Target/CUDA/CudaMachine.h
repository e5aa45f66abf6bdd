//===- CudaMachine.h - what a multiprocessor does in a cycle ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one description of the machine that estimates of time share: those that
// choose tiles and those that read machine code.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_CUDAMACHINE_H
#define MPC_LIB_TARGET_CUDA_CUDAMACHINE_H

#include "mpc/Target/TargetInfo.h"

#include <cstdint>

namespace mpc {

/// Rates are per cycle of one multiprocessor.
struct CudaMachine {
  static CudaMachine of(const TargetInfo &target);

  /// Cycles per second, and multiprocessors.
  double clock = 0;
  int64_t multiprocessors = 0;

  /// Instructions of warps that are issued.
  static constexpr double kIssue = 4;
  /// Instructions of warps by the unit for reciprocals, powers and conversions.
  static constexpr double kSpecial = 0.5;
  /// Bytes between registers and shared memory.
  static constexpr double kSharedBytes = 128;
  /// Bytes between the second-level cache and a multiprocessor, where all ask
  /// at once. Chips and Cheese read 5.5 to 5.7 TB/s on an H100 PCIe of 114
  /// multiprocessors at 1.755 GHz.
  static constexpr double kL2Bytes = 28;
  /// The same for one multiprocessor while others are idle.
  static constexpr double kL2BytesAlone = 64;
  /// Operations of `mma` instructions in `type`, sums in f32, and of those that
  /// four warps start together (wgmma); 0: there are none.
  double mmaFlops(MathType type) const;
  double warpgroupFlops(MathType type) const;
  /// Operations by fused multiply-adds of f32.
  double floatFlops() const;
  /// Bytes between the device's memory and one of all multiprocessors.
  double memoryBytes() const;

  /// Registers, warps, blocks and bytes of shared memory that a multiprocessor
  /// has for resident blocks; what the system takes of the latter for each.
  static constexpr int64_t kRegisters = 64 * 1024, kBlocks = 32;
  static constexpr int64_t kReservedShared = 1024;
  /// Registers of a thread at most.
  static constexpr int64_t kThreadRegisters = 255;
  int64_t warps = 64, sharedBytes = 0;
  /// Blocks of `threads` with `registers` each and `shared` bytes that are
  /// resident together; 0 where one does not fit.
  int64_t residentBlocks(int64_t threads, int64_t registers,
                         int64_t shared) const;

private:
  explicit CudaMachine(const TargetInfo &target) : target(target) {}
  TargetInfo target;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_CUDAMACHINE_H
