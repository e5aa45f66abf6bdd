//===- SelectPolicy.cpp - default precision policy of a target ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectPolicy.h"

#include "Compiler.h"

#include "mpc/JIT/BestPolicy.h"

#include <cstdio>

using namespace mpc;

std::string mpc::describeSpeedUp(PolicyType type, const TargetInfo &target) {
  if (!target.hasCeilings())
    return "";
  double factor = target.flopsPerSecond(type, /*aligned=*/true) /
                  target.flopsPerSecond(PolicyType::Float32, /*aligned=*/true);
  char text[64];
  std::snprintf(text, sizeof(text), ", %.3g times as fast as float32", factor);
  return text;
}

Result<PolicyChoice> mpc::explainBestPolicy(const std::string &target) {
  static constexpr std::pair<PolicyType, const char *> kByPreference[] = {
      {PolicyType::BFloat16, "mixed_bfloat16"},
      {PolicyType::Float16, "mixed_float16"},
      {PolicyType::TensorFloat32, "tf32"}};
  Result<TargetInfo> info = resolveTarget(target);
  if (!info.ok())
    return info.status();
  for (auto [type, policy] : kByPreference)
    if (info->hasFastPath(type))
      return PolicyChoice{policy, info->name() + " has units for " +
                                      stringify(type).str() +
                                      describeSpeedUp(type, *info)};
  return PolicyChoice{
      "float32",
      info->name() + " multiplies no low-precision type faster than float32"};
}

Result<std::string> mpc::bestPolicy(const std::string &target) {
  Result<PolicyChoice> choice = explainBestPolicy(target);
  if (!choice.ok())
    return choice.status();
  return choice->policy;
}
