//===- TargetFamily.h - targets of one folder -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETFAMILY_H
#define MPC_TARGET_TARGETFAMILY_H

#include "mpc/Target/TargetFacts.h"

#include <string>
#include <vector>

namespace mpc {

/// What a folder of lib/Target says of its targets. lib/Target/TargetInfo.cpp
/// has the list of families; see docs/AddingATarget.md.
struct TargetFamily {
  /// What stands before the colon.
  llvm::StringLiteral name;
  /// The targets, weakest first.
  std::vector<TargetFacts> (*describe)();
  /// The name in `describe` of a member as it is written ("sm_90a" is of
  /// "cuda:sm_90"); empty where there is none.
  std::string (*find)(llvm::StringRef member);
  /// Whether this machine runs code for a target without a device of its own.
  bool (*runsHere)(const TargetFacts &facts);
  /// Whether it is also worth choosing there, where no one names a target;
  /// null: all are.
  bool (*paysHere)(const TargetFacts &facts) = nullptr;
};

/// Adds a family that is defined outside of lib/Target. Before any other thread
/// asks for targets; its name must be new.
void addTargetFamily(const TargetFamily &family);

/// lib/Target/CPU.
TargetFamily cpuFamily();
/// lib/Target/CUDA.
TargetFamily cudaFamily();

} // namespace mpc

#endif // MPC_TARGET_TARGETFAMILY_H
