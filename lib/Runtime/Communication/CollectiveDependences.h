//===- CollectiveDependences.h - waits for collectives ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVEDEPENDENCES_H
#define MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVEDEPENDENCES_H

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <vector>

namespace mpc {
class Communicator;
}

namespace mpc::detail {

/// Dependences of a program's launches on its collectives. Collectives run in
/// order, so that a count identifies those that must be done.
struct CollectiveDependences {
  explicit CollectiveDependences(const Program &program);

  /// Fails unless `communicator`, which may be null, has the ranks that
  /// `program` was compiled for.
  Status check(const Program &program, const Communicator *communicator) const;

  /// Number of ranks the program was compiled for.
  int64_t ranks = 1;
  /// Indices of the launches that are collectives.
  std::vector<size_t> launches;
  /// For each launch, and for the end of the program: number of collectives
  /// that must be done before it. Collectives themselves wait for none.
  std::vector<size_t> needed;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVEDEPENDENCES_H
