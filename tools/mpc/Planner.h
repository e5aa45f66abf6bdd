//===- Planner.h - steps on numbers of ranks --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PLANNER_H
#define MPC_TOOLS_MPC_PLANNER_H

#include "Plan.h"

#include <set>

namespace mpc::tool {

/// What a step takes on one number of ranks.
struct PlannedRanks {
  /// Examples of a rank in a batch, and batches of a step: --accumulate.
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

/// Plans the steps that `options` say; `arguments` must outlive it.
class Planner {
public:
  Planner(const PlanArguments &arguments, CompileOptions options,
          Network network, bool isMeasured)
      : arguments(arguments), options(std::move(options)),
        network(std::move(network)), isMeasured(isMeasured) {}

  Result<PlannedRanks> plan(int64_t ranks, int64_t batch) const;

private:
  /// A program of a step and how often it runs.
  struct Part {
    PlannedStep step;
    int64_t runs = 1;
  };

  bool isHost() const { return arguments.network == "host"; }
  int64_t cores() const;
  /// Threads of a rank, and ranks that share a core, of network host.
  int threads(int64_t ranks) const;
  double crowding(int64_t ranks) const;
  /// The programs of a step in the order in which they run.
  Result<std::vector<Part>> partsOf(int64_t ranks, int64_t batch) const;
  Result<PlannedStep> stepOf(const CompileOptions &own, int64_t ranks) const;

  const PlanArguments &arguments;
  CompileOptions options;
  Network network;
  const bool isMeasured;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PLANNER_H
