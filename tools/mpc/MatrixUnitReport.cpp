//===- MatrixUnitReport.cpp - matrix units for a policy's types -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixUnitReport.h"

#include "JIT/Compiler.h"
#include "JIT/SelectPolicy.h"

using namespace mpc;
using namespace mpc::tool;

/// Topic of the note that is printed once per compile.
static constexpr const char *kFastPath = "fast path";

/// Formats a compute capability: "7.0".
static std::string capabilityText(int tenfold) {
  return std::to_string(tenfold / 10) + "." + std::to_string(tenfold % 10);
}

/// Returns the minimum compute capability, times ten, with units for `type`; 0
/// if none is known.
static int leastCapability(PolicyType type) {
  for (llvm::StringRef name : TargetInfo::names()) {
    std::optional<TargetInfo> target = TargetInfo::parse(name);
    if (target && target->isGpu() && target->hasFastPath(type))
      return target->facts().computeCapability;
  }
  return 0;
}

std::optional<std::string> tool::describeSlowType(PolicyType type,
                                                  const TargetInfo &target) {
  if (target.hasFastPath(type))
    return std::nullopt;
  std::string name = stringify(type).str();
  if (target.isGpu()) {
    std::string text = target.name() + " has no tensor cores for " + name;
    if (int least = leastCapability(type))
      text += ", which need compute capability " + capabilityText(least) +
              " or higher, not " +
              capabilityText(target.facts().computeCapability);
    return text + "; use --policy " + bestPolicy(target).policy +
           " or another GPU";
  }
  if (isComputeMode(type))
    return target.name() + " has no unit for " + name +
           ": contractions compute in float32, as with --policy float32";
  return target.name() + " has no unit for " + name +
         ": contractions upconvert it to float32, which saves memory traffic "
         "but no arithmetic; use --policy float32 for compute-bound models";
}

std::optional<std::string> tool::fastUnit(PolicyType type,
                                          const TargetInfo &target) {
  if (type == PolicyType::Float32 || type == PolicyType::Float64 ||
      !target.hasFastPath(type))
    return std::nullopt;
  return target.unit(type)->name.str();
}

PolicyChoice tool::bestPolicy(const TargetInfo &target) {
  return *explainBestPolicy(target.name());
}

void tool::resolveAutoPolicy(CompileOptions &options, Reporter &reporter) {
  if (options.policy != "auto")
    return;
  Result<TargetInfo> target = resolveTarget(options.target);
  PolicyChoice choice = target.ok()
                            ? bestPolicy(*target)
                            : PolicyChoice{"float32", "the target is unknown"};
  options.policy = choice.policy;
  reporter.noteOnce(kFastPath,
                    "--policy auto is " + choice.policy + ": " + choice.reason);
}

void tool::reportFastPath(const CompileOptions &options, Reporter &reporter,
                          bool isDefault) {
  Result<TargetInfo> target = resolveTarget(options);
  NamedPolicy policy(options.policy);
  // The compile reports errors.
  if (!target.ok() || !policy.error().empty())
    return;
  PolicyType type = policy->getCompute();
  if (isDefault && options.policy == "float32")
    if (PolicyChoice choice = bestPolicy(*target);
        choice.policy != options.policy)
      reporter.noteOnce(kFastPath, "the policy is float32, the default; "
                                   "--policy auto is " +
                                       choice.policy + ": " + choice.reason);
  if (std::optional<std::string> unit = fastUnit(type, *target))
    reporter.noteOnce(kFastPath,
                      "--policy " + options.policy + ": " + target->name() +
                          " multiplies " + stringify(type).str() + " on its " +
                          *unit + describeSpeedUp(type, *target) +
                          (target->unit(type)->flushesSubnormals
                               ? "; subnormal numbers are flushed to 0"
                               : ""));
  std::optional<std::string> text = describeSlowType(type, *target);
  if (!text)
    return;
  Diagnostic warning;
  warning.severity = Diagnostic::Severity::Warning;
  warning.stage = kNoFastPath;
  warning.where = "--policy " + options.policy;
  warning.text = *text;
  reporter.hear(warning);
}

std::string tool::shortTypeName(PolicyType type) {
  switch (type) {
  case PolicyType::Float64:
    return "f64";
  case PolicyType::Float32:
    return "f32";
  case PolicyType::Float16:
    return "f16";
  case PolicyType::BFloat16:
    return "bf16";
  case PolicyType::Float8E4M3FN:
    return "f8E4M3FN";
  case PolicyType::Float8E5M2:
    return "f8E5M2";
  default:
    return stringify(type).str();
  }
}
