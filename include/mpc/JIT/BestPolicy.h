//===- BestPolicy.h - the policy that suits a target ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_BESTPOLICY_H
#define MPC_JIT_BESTPOLICY_H

#include "mpc/Runtime/Status.h"

#include <string>

namespace mpc {

/// The built-in policy that makes the most of `target` (as
/// CompileOptions::target) without loss scaling: a 16-bit one where its type
/// has units, bfloat16 before float16 for its range, else tf32 or float32.
/// Fails where the target does not exist.
Result<std::string> bestPolicy(const std::string &target = "");

} // namespace mpc

#endif // MPC_JIT_BESTPOLICY_H
