//===- OptionChecks.cpp - checks of compile options -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/OptionChecks.h"

#include "Compiler.h"

#include "mpc/Policy/Policy.h"

using namespace mpc;

Status mpc::checkOptions(const CompileOptions &options) {
  if (Result<TargetInfo> target = resolveTarget(options); !target.ok())
    return target.status();
  llvm::Expected<Policy> policy = Policy::load(options.policy);
  if (!policy)
    return Status(StatusCode::InvalidArgument, "policy",
                  llvm::toString(policy.takeError()));
  for (const auto &[key, type] : options.sets)
    if (llvm::Error error = policy->addOverride(key + "=" + type))
      return Status(StatusCode::InvalidArgument, "policy",
                    llvm::toString(std::move(error)));
  return {};
}
