//===- NamedPolicy.cpp - policy with its name -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/NamedPolicy.h"

using namespace mpc;

NamedPolicy::NamedPolicy(std::string nameOrPath) {
  auto result = std::make_shared<Read>();
  result->name = std::move(nameOrPath);
  llvm::Expected<Policy> policy = Policy::load(result->name);
  if (!policy) {
    result->error = llvm::toString(policy.takeError());
    policy = Policy::load("float32");
  }
  result->policy = llvm::cantFail(std::move(policy));
  read = std::move(result);
}

llvm::Expected<Policy>
NamedPolicy::with(llvm::ArrayRef<std::string> overrides) const {
  if (!error().empty())
    return llvm::createStringError(error());
  Policy policy = read->policy;
  for (const std::string &text : overrides)
    if (llvm::Error error = policy.addOverride(text))
      return std::move(error);
  return policy;
}
