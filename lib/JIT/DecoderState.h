//===- DecoderState.h - state shared by decoders and sequences --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_DECODERSTATE_H
#define MPC_LIB_JIT_DECODERSTATE_H

#include "SlidingWindowCache.h"

#include "mpc/JIT/Decoder.h"

#include <mutex>

namespace mpc {

/// A program that takes `count` tokens of each of `batch` sequences, with the
/// indices of its arguments and results.
struct DecoderForm {
  Executable executable;
  int64_t batch = 1, count = 0;
  int tokens = -1, mask = -1, positions = -1, logits = 0;
  /// Index of the argument that selects the token whose logits are computed;
  /// -1: none.
  int last = -1;
  /// Argument indices of the KV caches: for each cache all sequences, followed
  /// by their scales if the cache is quantized.
  std::vector<int> caches = {};

  const TensorType &argument(int index) const {
    return executable.program().arguments[index].type;
  }
  const TensorType &result(int index) const {
    return executable.program().results[index].type;
  }
};

namespace detail {

/// KV caches of one sequence.
using Caches = std::vector<SlidingWindowCache>;

struct DecoderState {
  DecoderState(std::string name, Device device, DecoderForm one,
               DecoderForm piece)
      : name(std::move(name)), device(std::move(device)), one(std::move(one)),
        piece(std::move(piece)) {}

  std::string name;
  Device device;
  DecoderForm one, piece;
  int64_t capacity = 0, vocabulary = 0, slots = 1;
  bool endless = false;
  /// Bounds check of the smallest position-embedding table; null if there is
  /// none.
  const RunCheck *positions = nullptr;
  /// True if the mask must show padding tokens of a chunk
  /// (DecoderSignature::countsPositions).
  bool showsFilling = false;

  /// Returns empty KV caches: those of a finished sequence, whose pages are in
  /// memory, or new ones.
  Result<Caches> takeCaches(const Stream &stream) const;
  /// Keeps the caches of a finished sequence in host memory, as many as a batch
  /// has rows.
  void recycle(Caches caches) const;

  /// KV caches for unused batch rows, borrowed during a run.
  Result<Caches> acquireIdleBuffer(const Stream &stream) const;
  void releaseIdleBuffer(Caches caches) const;

private:
  Result<Caches> makeCaches(const Stream &stream) const;

  mutable std::mutex mutex;
  mutable std::vector<Caches> idle;
};

struct SequenceState {
  SequenceState(std::shared_ptr<const DecoderState> decoder, Stream stream,
                Caches caches, int64_t length = 0)
      : decoder(std::move(decoder)), stream(std::move(stream)),
        caches(std::move(caches)), length(length) {}
  SequenceState(const SequenceState &) = delete;
  SequenceState &operator=(const SequenceState &) = delete;
  ~SequenceState() { decoder->recycle(std::move(caches)); }

  std::shared_ptr<const DecoderState> decoder;
  Stream stream;
  Caches caches;
  int64_t length = 0;
};

} // namespace detail
} // namespace mpc

#endif // MPC_LIB_JIT_DECODERSTATE_H
