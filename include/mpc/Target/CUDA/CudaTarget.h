//===- CudaTarget.h - what kernels need to know of a GPU --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_CUDATARGET_H
#define MPC_TARGET_CUDA_CUDATARGET_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// An architecture that kernels are generated for. A value; cheap to copy.
struct CudaTarget {
  /// Ten times the compute capability: 80 for 8.0. Kernels need at least 75.
  int computeCapability = 80;
  /// The "a" of sm_90a: instructions of this architecture alone.
  bool archSpecific = false;

  /// Parses "sm_80", "sm_90a" or either with "cuda:" in front; nullopt where it
  /// is none or below 7.5.
  static std::optional<CudaTarget> parse(llvm::StringRef text);
  /// "sm_90a".
  std::string name() const;

  /// cp.async, and the bf16 and tf32 types of the matrix units.
  bool hasAsyncCopies() const { return computeCapability >= 80; }
  bool hasBf16() const { return computeCapability >= 80; }
  bool hasTf32() const { return computeCapability >= 80; }
  /// Shared memory that one block may have, with the opt-in attribute (CUDA C++
  /// programming guide, technical specifications per compute capability).
  int64_t sharedBytesPerBlock() const;
  /// The same without the attribute.
  static constexpr int64_t kPlainSharedBytes = 48 * 1024;
  /// Multiprocessors of the largest product, to fill a device with blocks.
  int64_t multiprocessors() const;
};

} // namespace mpc

#endif // MPC_TARGET_CUDA_CUDATARGET_H
