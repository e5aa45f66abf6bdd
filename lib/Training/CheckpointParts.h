//===- CheckpointParts.h - what each rank adds to a checkpoint --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_CHECKPOINTPARTS_H
#define MPC_LIB_TRAINING_CHECKPOINTPARTS_H

#include "mpc/Training/Checkpoint.h"

#include <optional>
#include <string>
#include <string_view>

namespace mpc::training {

/// The file of the checkpoint after `step` steps, and that of a rank's part.
std::string checkpointName(int64_t step);
std::string partName(int64_t step, int64_t rank, int64_t ranks);
/// The step in a part's file name.
std::optional<int64_t> stepOfPart(std::string_view name);
/// A number of decimal digits alone.
std::optional<int64_t> parseCount(std::string_view text);

/// Says in `checkpoint.facts` what its parts and pieces are.
void describeParts(Checkpoint &checkpoint);
/// Takes these facts out again, and joins the pieces in the part files beside
/// `path` to tensors. Fails, naming the file, where a part is missing, damaged
/// or of another checkpoint, or where tensors have more than `mostBytes`.
Status joinParts(const std::string &path, Checkpoint &checkpoint,
                 uint64_t mostBytes);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_CHECKPOINTPARTS_H
