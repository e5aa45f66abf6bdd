//===- Sampler.h - choosing the next token ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_SAMPLER_H
#define MPC_JIT_SAMPLER_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <random>
#include <span>

namespace mpc {

struct SamplingOptions {
  /// What logits are divided by; 0 takes the most likely token, the first of
  /// several.
  double temperature = 0;
  /// Only the so many most likely tokens are drawn from; 0 for all.
  int64_t topK = 0;
  /// Of these, only the fewest most likely ones whose probabilities, which are
  /// taken to sum to 1, sum to at least this ("nucleus": Holtzman et al., The
  /// Curious Case of Neural Text Degeneration, 2020); 1 for all.
  double topP = 1;
  /// The draws are those of std::mt19937_64 with this seed, the upper 53 bits
  /// of each as a number in [0, 1).
  uint64_t seed = 0;
};

/// Draws tokens. Equal seeds and logits give equal tokens on every machine. One
/// thread at a time.
class Sampler {
public:
  /// InvalidArgument where a number is outside what it means.
  static Result<Sampler> create(const SamplingOptions &options);

  /// The next token, an index into `logits`. InvalidArgument where a logit is
  /// NaN or there are none.
  Result<int64_t> next(std::span<const float> logits);

private:
  explicit Sampler(const SamplingOptions &options)
      : options(options), generator(options.seed) {}
  SamplingOptions options;
  std::mt19937_64 generator;
};

} // namespace mpc

#endif // MPC_JIT_SAMPLER_H
