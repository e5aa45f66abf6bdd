//===- CudaTarget.h - what kernels need to know of a GPU --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_CUDATARGET_H
#define MPC_TARGET_CUDA_CUDATARGET_H

#include "mpc/Target/TargetInfo.h"

#include <cstdint>
#include <optional>

namespace mpc {

/// An architecture that kernels are generated for. A value; cheap to copy.
class CudaTarget {
public:
  /// sm_80, which documents and tests show.
  CudaTarget() : info(*TargetInfo::parse("cuda:sm_80")) {}
  /// The architecture of a target; nullopt where no kernels are generated for
  /// it.
  static std::optional<CudaTarget> of(const TargetInfo &target);

  /// cp.async, and the bf16 and tf32 types of the matrix units.
  bool hasAsyncCopies() const { return capability() >= 80; }
  bool hasBf16() const { return info.unit(MathType::BFloat16); }
  bool hasTf32() const { return info.unit(MathType::TensorFloat32); }
  /// Whether four warps multiply tiles in shared memory together (wgmma): an
  /// instruction of this one architecture.
  bool hasWarpgroups() const { return info.name() == "cuda:sm_90a"; }
  /// Shared memory that one block may have, with the opt-in attribute.
  int64_t sharedBytesPerBlock() const {
    return info.facts().sharedBytesPerBlock;
  }
  /// The same without the attribute.
  static constexpr int64_t kPlainSharedBytes = 48 * 1024;
  /// Multiprocessors of the largest product, to fill a device with blocks.
  int64_t multiprocessors() const { return info.facts().multiprocessors; }
  /// The target that it is.
  const TargetInfo &target() const { return info; }

private:
  explicit CudaTarget(const TargetInfo &info) : info(info) {}
  int capability() const { return info.facts().computeCapability; }

  TargetInfo info;
};

} // namespace mpc

#endif // MPC_TARGET_CUDA_CUDATARGET_H
