//===- BlasTuner.h - the fastest way to a product ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_BLASTUNER_H
#define MPC_LIB_RUNTIME_CUDA_BLASTUNER_H

#include "../DiskCache.h"
#include "BlasProduct.h"
#include "CudaContext.h"

#include <memory>
#include <optional>
#include <string>

namespace mpc::detail {

/// Times the library's candidates for a product once per problem, alignment of
/// its buffers, device and version, and keeps the winner on disk. A candidate's
/// time is that of a graph of many products, without what a launch costs the
/// host, on random data in buffers that rotate through more than the L2 cache.
class BlasTuner {
public:
  /// `cache` may keep nothing.
  BlasTuner(std::shared_ptr<CudaContext> context, DiskCache cache)
      : context(std::move(context)), cache(std::move(cache)) {}

  /// The candidate to use. The device's context is current. Enqueues work on
  /// `stream` and waits for it, so it must not be under capture; where memory
  /// for timing is refused, the library's favourite is taken untimed.
  Result<BlasCandidate> choose(const BlasProduct &product, CuHandle stream);

  /// Candidates that one problem is timed with, and how often a graph of each
  /// is timed: the candidates take turns, and the least time counts.
  static constexpr int kCandidates = 16, kPasses = 5;

private:
  std::optional<BlasCandidate> find(const std::string &key) const;
  Result<BlasCandidate> time(const BlasProduct &product,
                             std::span<const BlasCandidate> candidates,
                             CuHandle stream);

  std::shared_ptr<CudaContext> context;
  DiskCache cache;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_BLASTUNER_H
