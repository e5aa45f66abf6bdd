//===- OptionChecks.h - checks of compile options ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_OPTIONCHECKS_H
#define MPC_JIT_OPTIONCHECKS_H

#include "mpc/JIT/Options.h"

namespace mpc {

/// Checks what a compile of any model would refuse, for hosts that compile
/// later: the policy, the form and type of each override, and the target. Reads
/// the policy's file only. Thread-safe.
Status checkOptions(const CompileOptions &options);

} // namespace mpc

#endif // MPC_JIT_OPTIONCHECKS_H
