//===- CheckRanks.h - a step of several ranks in one process ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_CHECKRANKS_H
#define MPC_TOOLS_MPC_CHECKRANKS_H

#include "mpc/Runtime/Executable.h"
#include "mpc/Runtime/ExecutableFile.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::tool {

/// What a rank is given and what it is left with, by name. Where an optimizer
/// is sharded the pieces of all ranks are put together.
struct RankValues {
  std::map<std::string, Buffer> given, left;
};

/// A result that all ranks should have alike, and one that has it otherwise.
struct RankDifference {
  std::string name;
  int64_t rank = 0;
};

/// Copies of buffers in host memory.
Result<Buffer> copyBuffer(const Buffer &buffer);

/// Whether a result of that role is every rank's own: what follows from a
/// rank's examples and is not exchanged.
bool isOfOneRank(const std::string &role);

/// What `ranks` ranks begin a step with: `values` describes the arguments of
/// `executable`. Batches and gradients are drawn by seed, others for each;
/// states are as at the start of a training.
Result<std::vector<RankValues>> drawRanks(const Executable &executable,
                                          std::span<const StoredValue> values,
                                          int64_t ranks, uint64_t seed);

/// Runs a step of several ranks on what each is given, on a thread for each,
/// and fills in what each is left with. `differences` receives what ranks
/// should have alike and have not. Fails where the run of one does, with the
/// first failure.
Status runRanks(const Executable &executable, std::vector<RankValues> &ranks,
                std::vector<RankDifference> &differences);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CHECKRANKS_H
