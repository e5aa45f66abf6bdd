//===- NamedPolicy.h - policy with its name ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_POLICY_NAMEDPOLICY_H
#define MPC_POLICY_NAMEDPOLICY_H

#include "mpc/Policy/Policy.h"

namespace mpc {

/// A built-in policy or a policy file, read once at construction. Copies share
/// the policy, which never changes, so threads may read them at the same time.
class NamedPolicy {
public:
  /// Takes the name of a built-in policy or the path of a file (.json). A
  /// policy that cannot be read is replaced by float32, and error() says why:
  /// the stage that assigns types reports it.
  NamedPolicy(std::string nameOrPath = "float32");
  NamedPolicy(const char *nameOrPath) : NamedPolicy(std::string(nameOrPath)) {}

  /// As given at construction.
  const std::string &name() const { return read->name; }
  /// Why the policy cannot be read; empty if it was read.
  const std::string &error() const { return read->error; }

  /// Returns the policy with overrides ("KEY=TYPE"), or what is wrong with it
  /// or them.
  llvm::Expected<Policy> with(llvm::ArrayRef<std::string> overrides) const;

  const Policy &operator*() const { return read->policy; }
  const Policy *operator->() const { return &read->policy; }

private:
  struct Read {
    std::string name, error;
    Policy policy;
  };
  std::shared_ptr<const Read> read;
};

} // namespace mpc

#endif // MPC_POLICY_NAMEDPOLICY_H
