//===- Checkpoint.h - the state of a training run in files ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint is one safetensors file with a SHA-256 of itself inside, so that
// other programs can read the weights and a torn file is seen. Ranks that have
// pieces of tensors write one such file each beside it, which it names by their
// digests.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_CHECKPOINT_H
#define MPC_TRAINING_CHECKPOINT_H

#include "mpc/Training/Dataset.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// Tensors by name, in host memory, and facts about the run as text.
struct Checkpoint {
  /// Training steps that were done.
  int64_t step = 0;
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> facts;
  /// Where ranks have written parts, in their order: what saveCheckpointPart()
  /// gave, and the shapes of the tensors of which each holds a piece. Empty in
  /// what is loaded, whose tensors are whole.
  std::vector<std::string> parts;
  std::map<std::string, std::vector<int64_t>> pieces;
};

/// A checkpoint as it was found.
struct FoundCheckpoint {
  Checkpoint checkpoint;
  /// Its file.
  std::string path;
  /// Why newer files of the folder were passed over.
  std::vector<Status> passedOver;
};

/// Writes `checkpoint` into `folder`, which is made where it is missing, as
/// `step-<number>.safetensors`, and gives the file's path. The file appears
/// whole or not at all, also where the process is killed; only then are older
/// ones deleted, all but the newest of them. One run at a time may write into a
/// folder.
Result<std::string> saveCheckpoint(const std::string &folder,
                                   const Checkpoint &checkpoint);

/// Writes one of `ranks` ranks' part of the checkpoint after `step` steps,
/// whole or not at all, and gives its digest. Pieces are rows of ceil(n /
/// ranks) of a tensor's n elements. The part counts once saveCheckpoint() has
/// named those of all ranks, which deletes the parts of the checkpoints that it
/// deletes.
Result<std::string> saveCheckpointPart(const std::string &folder, int64_t step,
                                       int64_t rank, int64_t ranks,
                                       std::vector<NamedTensor> pieces);

/// Reads the newest file of `folder` that is intact, with all of its parts,
/// where their tensors have at most `mostBytes` together. Reading is safe on
/// any bytes. Where there is none, the reasons are notes: ResourceExhausted
/// where a file has more bytes, which are not read, else NotFound.
Result<FoundCheckpoint> loadCheckpoint(const std::string &folder,
                                       uint64_t mostBytes = uint64_t(1) << 40);

} // namespace mpc

#endif // MPC_TRAINING_CHECKPOINT_H
