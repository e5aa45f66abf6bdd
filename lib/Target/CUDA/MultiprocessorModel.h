//===- MultiprocessorModel.h - throughput of a multiprocessor ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The machine model of all GPU time estimates: tile selection and the analysis
// of SASS listings.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_MULTIPROCESSORMODEL_H
#define MPC_LIB_TARGET_CUDA_MULTIPROCESSORMODEL_H

#include "mpc/Target/TargetInfo.h"

#include <cstdint>

namespace mpc::cuda {

/// Throughput and resources of one multiprocessor. Rates are per cycle.
struct MultiprocessorModel {
  static MultiprocessorModel of(const TargetInfo &target);

  /// Clock, in Hz, and number of multiprocessors.
  double clock = 0;
  int64_t multiprocessors = 0;

  /// Warp instructions issued.
  static constexpr double kIssue = 4;
  /// Warp instructions of the special function unit (reciprocal, exp,
  /// conversions).
  static constexpr double kSpecial = 0.5;
  /// Bytes between registers and shared memory.
  static constexpr double kSharedBytes = 128;
  /// Bytes from L2 with all multiprocessors active. Chips and Cheese measured
  /// 5.5 to 5.7 TB/s on an H100 PCIe with 114 multiprocessors at 1.755 GHz.
  static constexpr double kL2Bytes = 28;
  /// The same with one active multiprocessor.
  static constexpr double kL2BytesAlone = 64;
  /// Operations of mma.sync in `type` with f32 accumulators, and of wgmma; 0:
  /// not supported.
  double mmaFlops(MathType type) const;
  double warpgroupFlops(MathType type) const;
  /// Operations of f32 fused multiply-adds.
  double floatFlops(MathType type = MathType::Float32) const;
  /// Share of one multiprocessor in the bytes from device memory.
  double memoryBytes() const;

  /// Registers, blocks, warps and shared memory (bytes) of a multiprocessor,
  /// and shared memory (bytes) reserved by the system per block.
  static constexpr int64_t kRegisters = 64 * 1024, kBlocks = 32;
  static constexpr int64_t kReservedShared = 1024;
  /// Maximum registers per thread.
  static constexpr int64_t kThreadRegisters = 255;
  int64_t warps = 64, sharedBytes = 0;
  /// Returns the occupancy: resident blocks of `threads` with `registers` each
  /// and `shared` bytes; 0 if one does not fit.
  int64_t residentBlocks(int64_t threads, int64_t registers,
                         int64_t shared) const;

private:
  explicit MultiprocessorModel(const TargetInfo &target) : target(target) {}
  TargetInfo target;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_MULTIPROCESSORMODEL_H
