//===- CudaTarget.h - GPU properties used by kernels ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_CUDATARGET_H
#define MPC_TARGET_CUDA_CUDATARGET_H

#include "mpc/Target/TargetInfo.h"

#include <cstdint>
#include <optional>

namespace mpc::cuda {

/// A GPU architecture to generate kernels for. A value; cheap to copy.
class CudaTarget {
public:
  /// sm_80, the default in documentation and tests.
  CudaTarget() : info(*TargetInfo::parse("cuda:sm_80")) {}
  /// Returns the architecture of `target`, or nullopt if no kernels are
  /// generated for it.
  static std::optional<CudaTarget> of(const TargetInfo &target);

  /// Whether cp.async, and the tensor cores' bf16 and tf32 types, exist.
  bool hasAsyncCopies() const { return capability() >= 80; }
  bool hasBf16() const { return info.unit(MathType::BFloat16); }
  bool hasTf32() const { return info.unit(MathType::TensorFloat32); }
  /// Whether warpgroup GEMM from shared memory (wgmma) exists: sm_90a only.
  bool hasWarpgroups() const { return info.name() == "cuda:sm_90a"; }
  /// Maximum shared memory per block, in bytes, with the opt-in attribute.
  int64_t sharedBytesPerBlock() const {
    return info.facts().sharedBytesPerBlock;
  }
  /// The same without the attribute.
  static constexpr int64_t kPlainSharedBytes = 48 * 1024;
  /// Multiprocessors of the largest GPU of this architecture.
  int64_t multiprocessors() const { return info.facts().multiprocessors; }
  /// The architecture as a TargetInfo.
  const TargetInfo &target() const { return info; }

private:
  explicit CudaTarget(const TargetInfo &info) : info(info) {}
  int capability() const { return info.facts().computeCapability; }

  TargetInfo info;
};

} // namespace mpc::cuda

#endif // MPC_TARGET_CUDA_CUDATARGET_H
