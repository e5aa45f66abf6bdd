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

/// Returns the fastest built-in policy for `target` (as CompileOptions::target)
/// that needs no loss scaling: bfloat16, else float16, where the target has
/// matrix units for the type, else tf32 or float32. Fails if the target does
/// not exist.
Result<std::string> bestPolicy(const std::string &target = "");

} // namespace mpc

#endif // MPC_JIT_BESTPOLICY_H
