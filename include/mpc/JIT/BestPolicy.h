//===- BestPolicy.h - default precision policy of a target ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_BESTPOLICY_H
#define MPC_JIT_BESTPOLICY_H

#include "mpc/Runtime/Status.h"

#include <string>

namespace mpc {

/// A policy and the reason for it.
struct PolicyChoice {
  std::string policy;
  /// "cpu:amx has units for bfloat16, 16 times as fast as float32".
  std::string reason;
};

/// Returns the fastest built-in policy for `target` (as CompileOptions::target)
/// that needs no loss scaling: bfloat16, else float16, where the target has
/// matrix units for the type, else tf32 or float32. Fails if the target does
/// not exist.
Result<std::string> bestPolicy(const std::string &target = "");
/// The same with its reason.
Result<PolicyChoice> explainBestPolicy(const std::string &target = "");

} // namespace mpc

#endif // MPC_JIT_BESTPOLICY_H
