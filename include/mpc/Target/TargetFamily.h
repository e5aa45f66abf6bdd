//===- TargetFamily.h - interface of a target family ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_TARGETFAMILY_H
#define MPC_TARGET_TARGETFAMILY_H

#include "mpc/Target/MachineDescription.h"

#include <string>
#include <vector>

namespace mpc {

/// The targets of one folder of lib/Target. Registered in
/// lib/Target/TargetInfo.cpp; see docs/HowTo/AddingATarget.md.
struct TargetFamily {
  /// Target name prefix, before the colon.
  llvm::StringLiteral name;
  /// The targets, weakest first.
  std::vector<MachineDescription> (*describe)();
  /// Maps the part after the colon to a name in `describe` ("sm_90a" to
  /// "cuda:sm_90"); empty if unknown.
  std::string (*find)(llvm::StringRef member);
  /// Returns true if this machine can run code for a target without a separate
  /// device.
  bool (*runsHere)(const MachineDescription &facts);
  /// Returns true if the target is also a good default on this machine; null:
  /// all are.
  bool (*isDefaultHere)(const MachineDescription &facts) = nullptr;
};

/// Registers a family defined outside of lib/Target. Call before other threads
/// use targets; the name must be new.
void addTargetFamily(const TargetFamily &family);

/// lib/Target/CPU.
TargetFamily cpuFamily();
/// lib/Target/CUDA.
TargetFamily cudaFamily();

} // namespace mpc

#endif // MPC_TARGET_TARGETFAMILY_H
