//===- BlasTuner.h - the fastest way to a product ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_BLASTUNER_H
#define MPC_LIB_RUNTIME_CUDA_BLASTUNER_H

#include "../DiskCache.h"
#include "BlasProduct.h"
#include "CudaDriver.h"

#include <string>

namespace mpc::detail {

/// Times the library's candidates for a product once per problem, device and
/// version, on random data in buffers that rotate through more than the L2
/// cache, and keeps the winner on disk.
class BlasTuner {
public:
  /// `deviceName` is part of the key; `l2Bytes` the device's cache. `cache` may
  /// keep nothing.
  BlasTuner(const CudaDriver &driver, std::string deviceName, int64_t l2Bytes,
            DiskCache cache)
      : driver(driver), deviceName(std::move(deviceName)), l2Bytes(l2Bytes),
        cache(std::move(cache)) {}

  /// The candidate to use. The device's context is current. Enqueues work on
  /// `stream` and waits for it, so it must not be under capture; where memory
  /// for timing is refused, the library's favourite is taken untimed.
  Result<BlasCandidate> choose(const BlasProduct &product, CuHandle stream);

  /// Candidates that one problem is timed with, and timed runs of each.
  static constexpr int kCandidates = 16, kRuns = 10;

private:
  std::optional<BlasCandidate> find(const std::string &key,
                                    const BlasProduct &product) const;
  Result<BlasCandidate> time(const BlasProduct &product,
                             std::span<const BlasCandidate> candidates,
                             CuHandle stream);

  const CudaDriver &driver;
  std::string deviceName;
  int64_t l2Bytes;
  DiskCache cache;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_BLASTUNER_H
