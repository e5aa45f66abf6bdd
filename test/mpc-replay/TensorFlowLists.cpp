//===- TensorFlowLists.cpp - op lists of auto_mixed_precision -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Replay.h"

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::replay;

static std::string missing(const std::vector<std::string> &from,
                           const std::vector<std::string> &in) {
  std::vector<std::string> names;
  std::set_difference(from.begin(), from.end(), in.begin(), in.end(),
                      std::back_inserter(names));
  return llvm::join(names, ", ");
}

llvm::Expected<Tally> mpc::replay::replayTensorFlowLists(const Json &recording,
                                                         mlir::MLIRContext &) {
  llvm::Expected<Policy> policy = presetOf(recording);
  if (!policy)
    return policy.takeError();
  const std::pair<const char *, const char *> lists[] = {
      {"AllowList", "allow"},
      {"DenyList", "deny"},
      {"InferList", "infer"},
      {"ClearList", "clear"}};
  Tally tally;
  for (auto [theirs, name] : lists) {
    auto it = policy->getSystemLists().find(name);
    std::vector<std::string> ours;
    if (it != policy->getSystemLists().end())
      ours = it->second;
    auto recorded = recording.at(theirs).get<std::vector<std::string>>();
    std::sort(ours.begin(), ours.end());
    std::sort(recorded.begin(), recorded.end());
    std::string difference;
    if (std::string names = missing(recorded, ours); !names.empty())
      difference += "lacks " + names;
    if (std::string names = missing(ours, recorded); !names.empty())
      difference += (difference.empty() ? "" : "; ") + ("holds also " + names);
    tally.note(theirs, difference);
  }
  return tally;
}
