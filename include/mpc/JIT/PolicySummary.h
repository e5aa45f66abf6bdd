//===- PolicySummary.h - what a policy says about types ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The types of a policy, for hosts that name policies and show them.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_POLICYSUMMARY_H
#define MPC_JIT_POLICYSUMMARY_H

#include "mpc/Runtime/Status.h"

#include <string>
#include <vector>

namespace mpc {

/// A policy's own fields (docs/Policies.md), types by name: "float32", ...
struct PolicySummary {
  std::string name, description, algorithm;
  /// What `low` ops compute in, what lies between kernels, what parameters are
  /// kept in, what `low` contractions sum in and what outputs are rounded to.
  std::string compute, store, variable, accumulate, output;
};

/// Reads the policy of that name, or the file where the name ends in ".json".
/// InvalidArgument, naming the file and the field, where there is none or it is
/// wrong. From any thread.
Result<PolicySummary> summarisePolicy(const std::string &nameOrPath);

/// The same for JSON text; `where` names it in messages.
Result<PolicySummary> summarisePolicyText(const std::string &json,
                                          const std::string &where);

/// Names of the built-in policies, sorted.
std::vector<std::string> builtinPolicies();

} // namespace mpc

#endif // MPC_JIT_POLICYSUMMARY_H
