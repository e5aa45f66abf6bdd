//===- Checkpoint.h - training checkpoints ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint is one safetensors file with its SHA-256 inside, so that other
// programs can read the weights and incomplete files are detected. Ranks with
// shards of tensors each write one additional file, referenced by its digest.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_CHECKPOINT_H
#define MPC_TRAINING_CHECKPOINT_H

#include "mpc/Training/Dataset.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// Tensors by name, in host memory, and metadata of the run as text.
struct Checkpoint {
  /// Number of completed training steps.
  int64_t step = 0;
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> facts;
  /// For sharded tensors: the results of saveCheckpointPart() in rank order,
  /// and the unsharded shapes of the tensors. Empty after loading, which
  /// returns complete tensors.
  std::vector<std::string> parts;
  std::map<std::string, std::vector<int64_t>> pieces;
};

/// A loaded checkpoint.
struct FoundCheckpoint {
  Checkpoint checkpoint;
  /// Path of its file.
  std::string path;
  /// Reasons why newer files of the folder were skipped.
  std::vector<Status> passedOver;
};

/// Writes `checkpoint` to `folder`, which is created if missing, as
/// `step-<number>.safetensors`, and returns the path. Atomic, even if the
/// process is killed; afterwards deletes older checkpoints except the newest of
/// them. One run at a time may write to a folder.
Result<std::string> saveCheckpoint(const std::string &folder,
                                   const Checkpoint &checkpoint);

/// Writes one of `ranks` ranks' shards of the checkpoint after `step` steps,
/// atomically, and returns its digest. Shards are rows of ceil(n / ranks) of a
/// tensor's n elements. The file becomes valid when saveCheckpoint() references
/// the digests of all ranks; saveCheckpoint() also deletes the shard files of
/// the checkpoints that it deletes.
Result<std::string> saveCheckpointPart(const std::string &folder, int64_t step,
                                       int64_t rank, int64_t ranks,
                                       std::vector<NamedTensor> pieces);

/// Reads the newest intact checkpoint of `folder`, including all shards, whose
/// tensors have at most `mostBytes` bytes together. Safe for untrusted files.
/// If there is none, fails with the reasons as notes: ResourceExhausted if a
/// file is larger (it is not read), else NotFound.
Result<FoundCheckpoint> loadCheckpoint(const std::string &folder,
                                       uint64_t mostBytes = uint64_t(1) << 40);

} // namespace mpc

#endif // MPC_TRAINING_CHECKPOINT_H
