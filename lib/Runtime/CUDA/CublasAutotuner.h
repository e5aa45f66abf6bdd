//===- CublasAutotuner.h - autotuning of cuBLASLt algorithms ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUBLASAUTOTUNER_H
#define MPC_LIB_RUNTIME_CUDA_CUBLASAUTOTUNER_H

#include "../DiskCache.h"
#include "CublasGemm.h"
#include "CudaContext.h"

#include <memory>
#include <optional>
#include <string>

namespace mpc::detail {

/// Autotunes cuBLASLt: times the library's candidates once per problem, buffer
/// alignment, device and version, and caches the winner on disk. A candidate's
/// time is that of a graph of many GEMMs, without launch overhead, on random
/// data in buffers that rotate through more than the L2 cache.
class CublasAutotuner {
public:
  /// `cache` may be disabled.
  CublasAutotuner(std::shared_ptr<CudaContext> context, DiskCache cache)
      : context(std::move(context)), cache(std::move(cache)) {}

  /// Returns the fastest candidate. The device's context must be current.
  /// Enqueues work on `stream` and synchronizes, so it must not be capturing;
  /// if memory for timing cannot be allocated, returns the library's first
  /// choice.
  Result<BlasCandidate> choose(const CublasGemm &product, CuHandle stream);

  /// Number of candidates timed per problem, and timed passes over their
  /// graphs: candidates alternate, and the minimum time counts.
  static constexpr int kCandidates = 16, kPasses = 5;

private:
  std::optional<BlasCandidate> find(const std::string &key) const;
  Result<BlasCandidate> time(const CublasGemm &product,
                             std::span<const BlasCandidate> candidates,
                             CuHandle stream);

  std::shared_ptr<CudaContext> context;
  DiskCache cache;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUBLASAUTOTUNER_H
