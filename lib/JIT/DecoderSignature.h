//===- DecoderSignature.h - which input is which ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_DECODERSIGNATURE_H
#define MPC_LIB_JIT_DECODERSIGNATURE_H

#include "mpc/JIT/Options.h"
#include "mpc/JIT/Signature.h"

#include <map>
#include <span>

namespace mpc {

/// The inputs of a decoder by what they mean.
struct DecoderSignature {
  static constexpr const char *kPositions = "position_ids";

  ModelInput tokens, mask;
  std::optional<ModelInput> positions;
  struct Cache {
    ModelInput input;
    std::string result;
    int64_t axis = 0;
  };
  std::vector<Cache> caches;
  /// Whether the model counts positions by the tokens that the mask shows,
  /// those that fill up a piece among them.
  bool countsPositions = false;

  /// Finds them by their names (Decoder::open). Fails at `where`, the model,
  /// with what is missing or superfluous.
  static Result<DecoderSignature> find(std::span<const ModelInput> inputs,
                                       const std::string &where,
                                       bool countsPositions = false);

  /// Fails at the input whose batch is not open.
  Status checkBatch(const std::string &where) const;

  /// The shapes of all inputs for a run of `count` tokens of each of `batch`
  /// sequences behind `past` rows.
  std::map<std::string, std::vector<int64_t>>
  shapes(int64_t batch, int64_t count, int64_t past) const;
  /// The positions that the model counts from the number of rows itself, where
  /// it has no input for them.
  std::optional<CountedPositions> counted(int64_t batch, int64_t count,
                                          int64_t past) const;
  /// The caches, of several sequences each apart.
  std::vector<GrowingCache> growing(int64_t batch) const;
};

} // namespace mpc

#endif // MPC_LIB_JIT_DECODERSIGNATURE_H
