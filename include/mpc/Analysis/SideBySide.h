//===- SideBySide.h - launches that do not wait for each other --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_SIDEBYSIDE_H
#define MPC_ANALYSIS_SIDEBYSIDE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace mpc {

/// A launch of a program whose launches are numbered in their order.
struct OrderedLaunch {
  /// The earlier launches that it waits for.
  llvm::SmallVector<unsigned> reads;
  /// Whether it may run beside others, and so before launches that stand in
  /// front of it.
  bool mayJoin = false;
};

/// Groups of launches that run at once, in an order in which each comes behind
/// what it reads. The first launch of a group stands where it stood, in front
/// of what came behind it; the others are the next ones, up to `window` behind
/// it, that wait for nothing that is not done before the group, and of which
/// `fits(group, launch)` says that they may be added.
llvm::SmallVector<llvm::SmallVector<unsigned>> launchesSideBySide(
    llvm::ArrayRef<OrderedLaunch> launches, unsigned window,
    llvm::function_ref<bool(llvm::ArrayRef<unsigned>, unsigned)> fits);

} // namespace mpc

#endif // MPC_ANALYSIS_SIDEBYSIDE_H
