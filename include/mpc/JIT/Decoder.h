//===- Decoder.h - autoregressive decoding with a KV cache ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder holds the weights once and serves any number of sequences; each
// sequence has its own KV cache, which persists between calls.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_DECODER_H
#define MPC_JIT_DECODER_H

#include "mpc/JIT/Engine.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mpc {

namespace detail {
struct DecoderState;
struct SequenceState;
} // namespace detail

struct DecoderOptions {
  /// Policy and other compile options; the decoder sets `inputShapes` and
  /// `caches`.
  CompileOptions compile = {};
  /// Rows of a sequence's KV cache, allocated at the start; the maximum length
  /// of a sequence in tokens unless `endless`.
  int64_t capacity = 512;
  /// Sliding window: when the cache is full, new rows replace the oldest ones.
  /// Needs a model with sliding-window attention that looks back no further
  /// than the cache; open() refuses others.
  bool endless = false;
  /// Chunked prefill: tokens per run of a prompt; the last chunk is padded.
  int64_t chunk = 64;
  /// Maximum batch of Decoder::advance(), in sequences. More than one needs a
  /// model with a dynamic batch dimension.
  int64_t slots = 1;
};

/// One sequence: its KV cache so far. A handle; copies are the same sequence.
/// Not thread-safe, but different sequences of one decoder may run
/// concurrently.
class Sequence {
public:
  /// Appends `tokens` and returns the logits after the last one, one per
  /// vocabulary entry. Returns InvalidArgument, and appends nothing, if
  /// `tokens` is empty, if a token is outside the vocabulary, or if the
  /// sequence would exceed positions() or, unless it is endless, the decoder's
  /// capacity.
  Result<std::vector<float>> feed(std::span<const int64_t> tokens);

  /// Number of tokens so far.
  int64_t length() const;

  /// Returns a new sequence with the first `length` tokens, by default all.
  /// Copies their rows of the KV cache. Returns InvalidArgument if `length` is
  /// negative or exceeds length(), or if it is smaller and the first tokens
  /// have left the cache of an endless sequence.
  Result<Sequence> fork(std::optional<int64_t> length = std::nullopt) const;

private:
  friend class Decoder;
  explicit Sequence(std::shared_ptr<detail::SequenceState> state)
      : state(std::move(state)) {}
  std::shared_ptr<detail::SequenceState> state;
};

/// A decoder, compiled twice: a decode step (one token of each slot) and a
/// prefill chunk. A handle; copies share the programs. Thread-safe.
class Decoder {
public:
  /// Compiles `model` (ONNX) for the engine's device. Inputs are identified by
  /// the names that Optimum exports: "input_ids" [1, tokens], "attention_mask"
  /// [1, past + tokens], optionally "position_ids" [1, tokens], and KV caches
  /// with the prefix "past"; the result of each cache has "present" in place of
  /// "past" or "past_key_values". The logits are the output "logits", or else
  /// the first output, f32 [1, tokens, vocabulary]. Fails, naming the input or
  /// output, if the model has another signature.
  ///
  /// Cache rows are right-aligned, adjacent to the rows of the new tokens, so
  /// that relative positions are correct; the mask hides the unused rows before
  /// them.
  static Result<Decoder> open(const Engine &engine, const ModelSource &model,
                              const DecoderOptions &options = {});

  /// Returns an empty sequence. Allocates its KV cache.
  Result<Sequence> start() const;

  /// Batched decode step: appends `tokens[i]` to `sequences[i]` in one run,
  /// which reads the weights once, and returns the logits after each. Results
  /// do not depend on the batch composition: each sequence gets the same bits
  /// as alone, also by feed(). Returns InvalidArgument, and appends nothing, if
  /// a sequence is given twice or belongs to another decoder, if there are more
  /// than slots(), and for the reasons of feed().
  Result<std::vector<std::vector<float>>>
  advance(std::span<const Sequence> sequences,
          std::span<const int64_t> tokens) const;

  int64_t capacity() const;
  /// Maximum length of a sequence by the model's position-embedding tables, in
  /// tokens; nullopt if no table is indexed with 'position_ids'. feed() and
  /// advance() refuse more.
  std::optional<int64_t> positions() const;
  /// Maximum batch of an advance(), in sequences.
  int64_t slots() const;
  /// Vocabulary size.
  int64_t vocabulary() const;
  /// Programs of the decode step and of a prefill chunk of
  /// `DecoderOptions::chunk` tokens.
  const Executable &step() const;
  const Executable &piece() const;

private:
  explicit Decoder(std::shared_ptr<const detail::DecoderState> state)
      : state(std::move(state)) {}
  std::shared_ptr<const detail::DecoderState> state;
};

} // namespace mpc

#endif // MPC_JIT_DECODER_H
