//===- Plan.h - mpc plan ----------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PLAN_H
#define MPC_TOOLS_MPC_PLAN_H

#include "Train.h"

#include "mpc/Analysis/Network.h"
#include "mpc/Analysis/StepTimeline.h"
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
  /// "8,64,1024".
  std::string ranks;
  std::string network;
  std::optional<int64_t> batchPerRank;
  /// "auto", "measured" or "model": where the time of launches is from.
  std::string compute = "auto";
  /// What the launches of a rank take together, where the user knows.
  std::optional<double> stepMs;
  /// Cores that all ranks of network "host" share.
  std::optional<int64_t> cores;
};

/// Adds every flag of `mpc plan`.
void addPlanFlags(CLI::App &command, PlanArguments &arguments);

int planCommand(const PlanArguments &arguments);

/// How launches are timed where they are measured.
struct Timing {
  int threads = 1;
  /// Ranks that run at once, as many as the cores hold.
  int64_t beside = 1;
};

/// A step as one rank of several runs it.
struct PlannedStep {
  std::shared_ptr<const Program> program;
  /// Of each launch by itself; 0 of messages.
  std::vector<double> seconds;
};

/// Compiles a step for ranks and takes its launches' time from the ceilings of
/// the target: the most of arithmetic and memory, and the launch.
Result<PlannedStep> modelStep(const std::string &model,
                              const CompileOptions &options);

/// The same, measured on this machine's processor by as many ranks at once as
/// `timing` says, whose messages are copies.
Result<PlannedStep> measureStep(const std::string &model,
                                const CompileOptions &options,
                                const Timing &timing, uint64_t seed);

/// What an all-reduce among so many ranks of this machine takes: of MPI where a
/// launcher started this process with them, kept for later calls; else what was
/// kept, or of threads. `how` receives "MPI" or "threads".
Result<NetworkModel> hostNetwork(int64_t ranks, Communicator *group,
                                 std::string &how);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PLAN_H
