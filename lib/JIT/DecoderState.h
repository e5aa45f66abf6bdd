//===- DecoderState.h - what decoders and sequences share -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_DECODERSTATE_H
#define MPC_LIB_JIT_DECODERSTATE_H

#include "SlidingCache.h"

#include "mpc/JIT/Decoder.h"

#include <mutex>

namespace mpc {

/// A program that takes `count` tokens of each of `batch` sequences, and where
/// its arguments and results stand.
struct DecoderForm {
  Executable executable;
  int64_t batch = 1, count = 0;
  int tokens = -1, mask = -1, positions = -1, logits = 0;
  /// Which of several tokens the logits are behind.
  int last = -1;
  /// Of each cache those of all sequences, and where its numbers have scales,
  /// which are rows of a cache as well, then these.
  std::vector<int> caches = {};

  const TensorType &argument(int index) const {
    return executable.program().arguments[index].type;
  }
  const TensorType &result(int index) const {
    return executable.program().results[index].type;
  }
};

namespace detail {

/// Caches of one sequence.
using Caches = std::vector<SlidingCache>;

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
  /// The table of positions with the fewest rows, as the check of its gather
  /// describes it; null where there is none.
  const RunCheck *positions = nullptr;
  /// Whether the mask shows tokens that fill up a piece
  /// (DecoderSignature::countsPositions).
  bool showsFilling = false;

  Result<Caches> makeCaches(const Stream &stream) const;

  /// Rows of a batch that have no sequence write into caches of their own,
  /// which a run takes and gives back.
  Result<Caches> takeIdle(const Stream &stream) const;
  void giveBackIdle(Caches caches) const;

private:
  mutable std::mutex mutex;
  mutable std::vector<Caches> idle;
};

struct SequenceState {
  std::shared_ptr<const DecoderState> decoder;
  Stream stream;
  Caches caches;
  int64_t length = 0;
};

} // namespace detail
} // namespace mpc

#endif // MPC_LIB_JIT_DECODERSTATE_H
