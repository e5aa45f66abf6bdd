//===- ParallelPlanCommand.h - mpc plan -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PARALLELPLANCOMMAND_H
#define MPC_TOOLS_MPC_PARALLELPLANCOMMAND_H

#include "Train.h"

#include "mpc/Analysis/Network.h"
#include "mpc/Analysis/OverlapSimulation.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

struct PlanArguments {
  CommonOptions common;
  TrainingFlags step;
  /// Numbers of ranks: "8,64,1024".
  std::string ranks;
  std::string network;
  std::optional<int64_t> batchPerRank;
  /// Source of launch times: "auto", "measured" or "model".
  std::string compute = "auto";
  /// Total time of a rank's launches in ms, if the user provides it.
  std::optional<double> stepMs;
  /// Number of cores shared by all ranks of network "host".
  std::optional<int64_t> cores;
};

/// Adds all flags of `mpc plan`.
void addPlanFlags(CLI::App &command, PlanArguments &arguments);

int planCommand(const PlanArguments &arguments);

/// Options for measuring launches.
struct Timing {
  int threads = 1;
  /// Number of concurrent ranks, as many as the cores support.
  int64_t beside = 1;
};

/// A step of one rank of several.
struct PredictedStepTime {
  std::shared_ptr<const Program> program;
  /// Time of each launch in seconds; 0 for collectives.
  std::vector<double> seconds;
};

/// Compiles a step for ranks and models its launches by the target's roofline
/// plus launch overhead.
Result<PredictedStepTime> modelStep(const std::string &model,
                                    const CompileOptions &options);

/// The same, measured on this machine's CPU by concurrent ranks (`timing`),
/// with collectives replaced by copies.
Result<PredictedStepTime> measureStep(const std::string &model,
                                      const CompileOptions &options,
                                      const Timing &timing, uint64_t seed);

/// Returns the model of an all-reduce among `ranks` ranks of this machine:
/// measured with MPI if a launcher started this process with them, and cached;
/// else the cached one, or measured among threads. `how` receives "MPI" or
/// "threads".
Result<NetworkModel> hostNetwork(int64_t ranks, Communicator *group,
                                 std::string &how);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PARALLELPLANCOMMAND_H
