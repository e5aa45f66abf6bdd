//===- Campaign.h - many cases ----------------------------------*- C++ -*-===//
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
  /// Ends the campaign; 0 for never.
  double minutes = 0;
  int jobs = 2;
  Plan plan;
  Limits limits;
  /// Receives failures; empty keeps none.
  std::string folder;
  int reduceSeconds = 120;
  int mostFailures = 0;
  bool json = false, quiet = false, print = false;
};

/// A folder that goes away with the object.
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

/// Draws and judges every seed; the exit code.
int runCampaign(const CampaignOptions &options);

Json toJson(const Case &drawn, const Outcome &outcome);

/// Shrinks a failure with mpc-reduce while its first finding is of the same
/// step, for at most `seconds`.
Case reduceCase(const Case &drawn, const Finding &finding,
                const std::string &scratch, const Limits &limits, int seconds);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_CAMPAIGN_H
