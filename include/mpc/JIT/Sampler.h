//===- Sampler.h - token sampling -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_SAMPLER_H
#define MPC_JIT_SAMPLER_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <random>
#include <set>
#include <span>

namespace mpc {

struct SamplingOptions {
  /// Divisor of the logits; 0: greedy decoding (the first of equal maxima).
  double temperature = 0;
  /// Top-k: number of most likely tokens to sample from; 0: all.
  int64_t topK = 0;
  /// Nucleus sampling (Holtzman et al., The Curious Case of Neural Text
  /// Degeneration, 2020): samples from the fewest most likely of these tokens
  /// whose normalized probabilities sum to at least this; 1: all.
  double topP = 1;
  /// Seed of std::mt19937_64; the upper 53 bits of each output are a number in
  /// [0, 1).
  uint64_t seed = 0;
  /// Samples only from tokens with at least this share of the largest
  /// probability, in [0, 1]; 0: all.
  double minP = 0;
  /// Divides positive and multiplies negative logits of tokens that are already
  /// in the text, before all else (Keskar et al., CTRL, 2019); above 0; 1:
  /// none.
  double repetitionPenalty = 1;
};

/// Samples tokens. Deterministic: equal seeds and logits give equal tokens on
/// every machine. Not thread-safe.
class Sampler {
public:
  /// Returns InvalidArgument if an option is out of range.
  static Result<Sampler> create(const SamplingOptions &options);

  /// Adds `tokens` of the prompt to the text for the repetition penalty.
  void observe(std::span<const int64_t> tokens);

  /// Returns the next token, an index into `logits`, and adds it to the text.
  /// Returns InvalidArgument if a logit is NaN or `logits` is empty.
  Result<int64_t> next(std::span<const float> logits);

private:
  /// Samples from logits that the repetition penalty has changed.
  Result<int64_t> sample(std::span<const float> logits);

  explicit Sampler(const SamplingOptions &options)
      : options(options), generator(options.seed) {}
  SamplingOptions options;
  std::mt19937_64 generator;
  /// Distinct tokens of the text, if there is a repetition penalty.
  std::set<int64_t> seen;
};

} // namespace mpc

#endif // MPC_JIT_SAMPLER_H
