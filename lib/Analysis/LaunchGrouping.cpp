//===- LaunchGrouping.cpp - grouping of independent launches --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch is added to a group only if all of its dependences are in earlier
// groups, so the groups have no cycle.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LaunchGrouping.h"

using namespace mpc;

llvm::SmallVector<llvm::SmallVector<unsigned>> mpc::groupIndependentLaunches(
    llvm::ArrayRef<LaunchDependences> launches, unsigned window,
    llvm::function_ref<bool(llvm::ArrayRef<unsigned>, unsigned)> fits) {
  llvm::SmallVector<llvm::SmallVector<unsigned>> groups;
  llvm::SmallVector<bool> isDone(launches.size(), false);
  for (unsigned first = 0; first < launches.size(); ++first) {
    if (isDone[first])
      continue;
    llvm::SmallVector<unsigned> group = {first};
    unsigned seen = 0;
    for (unsigned next = first + 1; launches[first].mayRunConcurrently &&
                                    next < launches.size() && seen < window;
         ++next) {
      if (isDone[next])
        continue;
      ++seen;
      bool isReady = launches[next].mayRunConcurrently &&
                     llvm::all_of(launches[next].reads, [&](unsigned earlier) {
                       return isDone[earlier];
                     });
      if (isReady && fits(group, next))
        group.push_back(next);
    }
    for (unsigned launch : group)
      isDone[launch] = true;
    groups.push_back(std::move(group));
  }
  return groups;
}
