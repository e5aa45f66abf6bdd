//===- PolicySummary.cpp - types of a precision policy --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/PolicySummary.h"

#include "mpc/Policy/Policy.h"

using namespace mpc;

static Result<PolicySummary> summarise(llvm::Expected<Policy> policy) {
  if (!policy)
    return Status(StatusCode::InvalidArgument, "",
                  llvm::toString(policy.takeError()));
  PolicySummary summary;
  summary.name = policy->getName().str();
  summary.description = policy->getDescription().str();
  summary.algorithm = stringify(policy->getAlgorithm()).str();
  summary.compute = stringify(policy->getCompute()).str();
  summary.store = stringify(policy->getStore()).str();
  summary.variable = stringify(policy->getVariable()).str();
  summary.accumulate = stringify(policy->getAccumulate()).str();
  summary.output = stringify(policy->getOutput()).str();
  return summary;
}

Result<PolicySummary> mpc::summarisePolicy(const std::string &nameOrPath) {
  return summarise(Policy::load(nameOrPath));
}

Result<PolicySummary> mpc::summarisePolicyText(const std::string &json,
                                               const std::string &where) {
  return summarise(Policy::parse(json, where));
}

std::vector<std::string> mpc::builtinPolicies() {
  std::vector<std::string> names;
  for (llvm::StringRef name : Policy::builtinNames())
    names.push_back(name.str());
  return names;
}
