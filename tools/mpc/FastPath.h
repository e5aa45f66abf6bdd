//===- FastPath.h - policies and what a device does fast --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tells when a policy's type has no unit on the target, and which policy suits
// a target best.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_FASTPATH_H
#define MPC_TOOLS_MPC_FASTPATH_H

#include "Reporter.h"

#include "mpc/JIT/Options.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>

namespace mpc::tool {

/// The code of the warning about a type without a fast path.
inline constexpr const char *kNoFastPath = "no_fast_path";

/// Why `type` is no faster than float32 on `target` and what to do about it;
/// nullopt where it is.
std::optional<std::string> describeSlowType(PolicyType type,
                                            const TargetInfo &target);

/// The unit of `target` that multiplies `type` faster than float32 is
/// multiplied, as "tensor cores"; nullopt where there is none, and for float32
/// and float64.
std::optional<std::string> fastUnit(PolicyType type, const TargetInfo &target);

/// A policy and the reason for it.
struct PolicyChoice {
  std::string policy;
  std::string reason;
};

/// The built-in policy that makes the most of `target` without loss scaling: a
/// 16-bit one where its type has units, bfloat16 before float16 for its range.
PolicyChoice bestPolicy(const TargetInfo &target);

/// Puts the best policy in place of "auto" and says which.
void resolveAutoPolicy(CompileOptions &options, Reporter &reporter);

/// Says, once per compile, whether the policy's compute type has a fast path on
/// the target: a note that names target, type and unit, or a warning. Nothing
/// of float32. A policy that cannot be read is left to the compile.
void reportFastPath(const CompileOptions &options, Reporter &reporter);

/// "f32", "bf16", "tf32": a policy's type as documents and IR spell it.
std::string shortTypeName(PolicyType type);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_FASTPATH_H
