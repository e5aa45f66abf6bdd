//===- MatrixUnitReport.h - matrix units for a policy's types ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warns if a policy's type has no matrix unit on the target, and selects the
// best policy of a target.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_MATRIXUNITREPORT_H
#define MPC_TOOLS_MPC_MATRIXUNITREPORT_H

#include "Reporter.h"

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/Options.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>

namespace mpc::tool {

/// Code of the warning about a type without a fast path.
inline constexpr const char *kNoFastPath = "no_fast_path";

/// Returns why `type` is no faster than float32 on `target`, with a remedy;
/// nullopt if it is faster.
std::optional<std::string> describeSlowType(PolicyType type,
                                            const TargetInfo &target);

/// Returns the unit of `target` that multiplies `type` faster than float32,
/// such as "tensor cores"; nullopt if there is none, and for float32 and
/// float64.
std::optional<std::string> fastUnit(PolicyType type, const TargetInfo &target);

/// Returns the fastest built-in policy of `target` without loss scaling: a
/// 16-bit one if its type has units, preferring bfloat16 for its range.
PolicyChoice bestPolicy(const TargetInfo &target);

/// Replaces the policy "auto" by the best one and reports it.
void resolveAutoPolicy(CompileOptions &options, Reporter &reporter);

/// Reports, once per compile, whether the policy's compute type has a matrix
/// unit on the target: a note with target, type and unit, or a warning. For
/// float32, if no flag chose it: what --policy auto would choose, if that is
/// faster. The compile reports an unreadable policy.
void reportFastPath(const CompileOptions &options, Reporter &reporter,
                    bool isDefault);

/// Returns a policy's type as in documents and IR: "f32", "bf16", "tf32".
std::string shortTypeName(PolicyType type);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_MATRIXUNITREPORT_H
