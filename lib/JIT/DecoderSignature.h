//===- DecoderSignature.h - inputs of a decoder model -----------*- C++ -*-===//
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

/// Inputs of a decoder by role.
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
  /// True if the model derives positions from the mask, counting padding tokens
  /// of a chunk.
  bool countsPositions = false;

  /// Identifies the inputs by name (Decoder::open). Fails at `where`, the
  /// model, with the missing or unexpected input.
  static Result<DecoderSignature> find(std::span<const ModelInput> inputs,
                                       const std::string &where,
                                       bool countsPositions = false);

  /// Fails at an input without a dynamic batch dimension.
  Status checkBatch(const std::string &where) const;

  /// Returns the shapes of all inputs for `batch` sequences with `count` new
  /// tokens each after `past` cached rows.
  std::map<std::string, std::vector<int64_t>>
  shapes(int64_t batch, int64_t count, int64_t past) const;
  /// Describes a program with `past` cache rows that are filled one by one; if
  /// `endless`, the last rows of a longer sequence.
  PaddedDecoder padded(int64_t batch, int64_t count, int64_t past,
                       bool endless) const;
  /// Returns the KV caches; one buffer per sequence if `batch` exceeds 1.
  std::vector<GrowingCache> growing(int64_t batch) const;
};

} // namespace mpc

#endif // MPC_LIB_JIT_DECODERSIGNATURE_H
