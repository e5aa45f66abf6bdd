//===- LaunchGrouping.h - grouping of independent launches ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_LAUNCHGROUPING_H
#define MPC_ANALYSIS_LAUNCHGROUPING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace mpc {

/// A launch of a program; launches are indexed in program order.
struct LaunchDependences {
  /// Earlier launches that it depends on.
  llvm::SmallVector<unsigned> reads;
  /// Whether it may run concurrently with, or before, earlier launches.
  bool mayRunConcurrently = false;
};

/// Groups independent launches for concurrent execution. Keeps topological
/// order: a group takes the place of its first launch and adds launches among
/// the next `window` ones that depend only on earlier groups and that
/// `fits(group, launch)` accepts.
llvm::SmallVector<llvm::SmallVector<unsigned>> groupIndependentLaunches(
    llvm::ArrayRef<LaunchDependences> launches, unsigned window,
    llvm::function_ref<bool(llvm::ArrayRef<unsigned>, unsigned)> fits);

} // namespace mpc

#endif // MPC_ANALYSIS_LAUNCHGROUPING_H
