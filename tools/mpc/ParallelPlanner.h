//===- ParallelPlanner.h - modeled steps by number of ranks -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PARALLELPLANNER_H
#define MPC_TOOLS_MPC_PARALLELPLANNER_H

#include "ParallelPlanCommand.h"

#include <set>

namespace mpc::tool {

/// Modeled step for one number of ranks.
struct PlannedRanks {
  /// Number of ranks, batch size per rank, and batches per step (--accumulate).
  int64_t ranks = 1, batch = 0, batches = 1;
  StepTimeline timeline;
  int64_t messages = 0;
  double wireBytes = 0;
  int64_t memoryBytes = 0;
  std::set<std::string> algorithms;

  double examplesPerSecond() const {
    return double(batch) * double(batches) * double(ranks) / timeline.seconds;
  }
};

/// Models the steps of `options`; `arguments` must outlive it.
class ParallelPlanner {
public:
  ParallelPlanner(const PlanArguments &arguments, CompileOptions options,
                  Network network, bool isMeasured)
      : arguments(arguments), options(std::move(options)),
        network(std::move(network)), isMeasured(isMeasured) {}

  Result<PlannedRanks> plan(int64_t ranks, int64_t batch) const;

private:
  /// A program of a step and how often it runs.
  struct Part {
    PredictedStepTime step;
    int64_t runs = 1;
  };

  bool isHost() const { return arguments.network == "host"; }
  int64_t cores() const;
  /// Threads per rank, and ranks per core, of network host.
  int threads(int64_t ranks) const;
  double crowding(int64_t ranks) const;
  /// Returns the programs of a step in execution order.
  Result<std::vector<Part>> partsOf(int64_t ranks, int64_t batch) const;
  Result<PredictedStepTime> stepOf(const CompileOptions &own,
                                   int64_t ranks) const;

  const PlanArguments &arguments;
  CompileOptions options;
  Network network;
  const bool isMeasured;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PARALLELPLANNER_H
