//===- Campaign.h - Fuzzing campaigns ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_CAMPAIGN_H
#define MPC_TOOLS_SMITH_CAMPAIGN_H

#include "Worker.h"

#include "Reporter.h"

namespace mpc::smith {

struct CampaignOptions {
  uint64_t first = 1, last = 100;
  /// Time limit of the campaign; 0 for none.
  double minutes = 0;
  int jobs = 2;
  Plan plan;
  Limits limits;
  /// Receives failing cases; empty to discard them.
  std::string folder;
  int reduceSeconds = 120;
  int mostFailures = 0;
  bool json = false, quiet = false, print = false;
};

/// A temporary directory, removed by the destructor.
class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  const std::string &path() const { return folder; }

private:
  std::string folder;
};

/// Generates and checks a case per seed; returns the exit code.
int runCampaign(const CampaignOptions &options);

Json toJson(const Case &drawn, const Outcome &outcome);

/// Reduces a failure with mpc-reduce, for at most `seconds`, while its first
/// finding is in the same step.
Case reduceCase(const Case &drawn, const Finding &finding,
                const std::string &scratch, const Limits &limits, int seconds);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_CAMPAIGN_H
