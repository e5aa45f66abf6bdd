//===- SelectPolicy.cpp - default precision policy of a target ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/BestPolicy.h"

#include "Compiler.h"

using namespace mpc;

Result<std::string> mpc::bestPolicy(const std::string &target) {
  static constexpr std::pair<PolicyType, const char *> kByPreference[] = {
      {PolicyType::BFloat16, "mixed_bfloat16"},
      {PolicyType::Float16, "mixed_float16"},
      {PolicyType::TensorFloat32, "tf32"}};
  Result<TargetInfo> info = resolveTarget(target);
  if (!info.ok())
    return info.status();
  for (auto [type, policy] : kByPreference)
    if (info->hasFastPath(type))
      return std::string(policy);
  return std::string("float32");
}
