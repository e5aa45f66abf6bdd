//===- Decoder.h - sequences that grow token by token -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder with a cache of keys and values: its weights once, and any number
// of sequences, each with a cache of its own that stays between calls.
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
  /// Policy and all else; `inputShapes` and `caches` are set by the decoder.
  CompileOptions compile = {};
  /// Rows of a sequence's cache, all from the start. The most tokens that it
  /// can have, unless it is endless.
  int64_t capacity = 512;
  /// Sequences go on where their cache is full: new rows take the place of the
  /// oldest ones. For models with a window, whose tokens do not see further
  /// back than the cache reaches; open() refuses others.
  bool endless = false;
  /// Most tokens that one run takes: prompts are fed in such pieces, the last
  /// one filled up.
  int64_t chunk = 64;
  /// Most sequences that one run of Decoder::advance() takes. More than one
  /// need a model whose batch is left open.
  int64_t slots = 1;
};

/// One sequence: its tokens so far, as rows of keys and values. A handle;
/// copies are the same sequence. One thread at a time may use it, and sequences
/// of one decoder may run at once.
class Sequence {
public:
  /// Appends `tokens` and returns the logits behind the last of them, one per
  /// word of the vocabulary. InvalidArgument, and nothing is appended, where
  /// there are none, where one is outside the vocabulary, or where the sequence
  /// would have more tokens than the decoder's capacity and is not endless, or
  /// than its positions().
  Result<std::vector<float>> feed(std::span<const int64_t> tokens);

  /// Tokens so far.
  int64_t length() const;

  /// Another sequence that begins with the tokens of this one. Copies the
  /// cache.
  Result<Sequence> fork() const;

private:
  friend class Decoder;
  explicit Sequence(std::shared_ptr<detail::SequenceState> state)
      : state(std::move(state)) {}
  std::shared_ptr<detail::SequenceState> state;
};

/// A decoder, compiled twice: for one token of each of its slots, and for a
/// piece of a prompt. A handle; copies share the programs. May be used by
/// several threads at once.
class Decoder {
public:
  /// Compiles `model` (ONNX) for the engine's device. The model's inputs are
  /// found by their names, as Optimum exports them: "input_ids" [1, tokens],
  /// "attention_mask" [1, past + tokens], "position_ids" [1, tokens] where the
  /// model does not derive positions from its other inputs itself,
  /// and caches whose names begin with "past"; each cache's result has
  /// "present" in place of "past" or "past_key_values". The logits are the
  /// output "logits", or else the first, f32 [1, tokens, vocabulary]. Fails,
  /// naming the input or output, where the model has another form.
  ///
  /// Rows of a cache stand at its end, where they are next to the new tokens',
  /// so that distances between them are what the model takes them for; the mask
  /// hides the rows before them.
  static Result<Decoder> open(const Engine &engine, const ModelSource &model,
                              const DecoderOptions &options = {});

  /// An empty sequence. Allocates its cache.
  Result<Sequence> start() const;

  /// Appends `tokens[i]` to `sequences[i]`, all in one run, which reads the
  /// weights once, and returns the logits behind each. Which sequences run
  /// together is free: each gets, to the last bit, what it would alone, also by
  /// feed(). InvalidArgument, and nothing is appended, where a sequence is
  /// given twice or is another decoder's, where there are more than slots() of
  /// them, and for what feed() refuses.
  Result<std::vector<std::vector<float>>>
  advance(std::span<const Sequence> sequences,
          std::span<const int64_t> tokens) const;

  int64_t capacity() const;
  /// Most tokens of a sequence that the model's tables of positions have rows
  /// for; nullopt where nothing looks up input 'position_ids'. feed() and
  /// advance() refuse more.
  std::optional<int64_t> positions() const;
  /// Most sequences of an advance().
  int64_t slots() const;
  /// Words of the vocabulary.
  int64_t vocabulary() const;
  /// What computes one token of each slot, and a piece of
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
