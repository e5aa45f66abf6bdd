//===- PolicySummary.h - types of a precision policy ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For hosts that let users select and inspect policies.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_POLICYSUMMARY_H
#define MPC_JIT_POLICYSUMMARY_H

#include "mpc/Runtime/Status.h"

#include <string>
#include <vector>

namespace mpc {

/// A policy's own fields (docs/Reference/Policies.md), types by name:
/// "float32", ...
struct PolicySummary {
  std::string name, description, algorithm;
  /// Compute type of `low` ops, storage type between kernels, storage type of
  /// parameters, accumulator type of `low` contractions, and type of outputs.
  std::string compute, store, variable, accumulate, output;
};

/// Reads the built-in policy of that name, or a file if the name ends in
/// ".json". Returns InvalidArgument, naming the file and the field, if it is
/// missing or invalid. Thread-safe.
Result<PolicySummary> summarisePolicy(const std::string &nameOrPath);

/// The same for JSON text; `where` is its name in messages.
Result<PolicySummary> summarisePolicyText(const std::string &json,
                                          const std::string &where);

/// Names of the built-in policies, sorted.
std::vector<std::string> builtinPolicies();

} // namespace mpc

#endif // MPC_JIT_POLICYSUMMARY_H
