//===- CheckRanks.h - in-process step of several ranks ----------*- C++ -*-===//
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

/// Arguments and results of a rank, by name. Shards of a sharded optimizer are
/// concatenated.
struct RankValues {
  std::map<std::string, Buffer> given, left;
};

/// A result that should be equal on all ranks, and a rank where it differs.
struct RankDifference {
  std::string name;
  int64_t rank = 0;
};

/// Copies a host buffer.
Result<Buffer> copyBuffer(const Buffer &buffer);

/// Returns true if results of that role may differ between ranks: those that
/// depend on a rank's examples and are not communicated.
bool isOfOneRank(const std::string &role);

/// Returns the arguments of `ranks` ranks for a step: `values` describes the
/// arguments of `executable`. Batches and gradients are random by seed,
/// different for each rank; states have their initial values.
Result<std::vector<RankValues>> drawRanks(const Executable &executable,
                                          std::span<const ProgramValue> values,
                                          int64_t ranks, uint64_t seed);

/// Runs a step of several ranks, one thread per rank, and collects the results.
/// `differences` receives results that should be equal and are not. Fails with
/// the first failure of a rank.
Status runRanks(const Executable &executable, std::vector<RankValues> &ranks,
                std::vector<RankDifference> &differences);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_CHECKRANKS_H
