//===- CheckpointShards.h - per-rank shards of a checkpoint -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_CHECKPOINTSHARDS_H
#define MPC_LIB_TRAINING_CHECKPOINTSHARDS_H

#include "mpc/Training/Checkpoint.h"

#include <optional>
#include <string>
#include <string_view>

namespace mpc::training {

/// Return the file names of the checkpoint after `step` steps, and of a rank's
/// shards.
std::string checkpointName(int64_t step);
std::string shardFileName(int64_t step, int64_t rank, int64_t ranks);
/// Returns the step in a shard file's name.
std::optional<int64_t> stepOfShard(std::string_view name);
/// Parses a decimal number.
std::optional<int64_t> parseCount(std::string_view text);

/// Records shards and sharded shapes in `checkpoint.facts`.
void recordShards(Checkpoint &checkpoint);
/// Removes these records and concatenates the shards in the files next to
/// `path`. Fails, naming the file, if a shard is missing, corrupt or from
/// another checkpoint, or if tensors have more than `mostBytes` bytes.
Status mergeShards(const std::string &path, Checkpoint &checkpoint,
                   uint64_t mostBytes);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_CHECKPOINTSHARDS_H
