//===- SelectPolicy.h - gain of a type on a target --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SELECTPOLICY_H
#define MPC_LIB_JIT_SELECTPOLICY_H

#include "mpc/Target/TargetInfo.h"

#include <string>

namespace mpc {

/// Formats ", 16 times as fast as float32"; empty if the rates are unknown.
std::string describeSpeedUp(PolicyType type, const TargetInfo &target);

} // namespace mpc

#endif // MPC_LIB_JIT_SELECTPOLICY_H
