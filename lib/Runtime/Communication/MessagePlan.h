//===- MessagePlan.h - when a program waits for its messages ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_MESSAGEPLAN_H
#define MPC_LIB_RUNTIME_COMMUNICATION_MESSAGEPLAN_H

#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <vector>

namespace mpc {
class Communicator;
}

namespace mpc::detail {

/// The messages of a valid program, and which of them have to be over when a
/// launch begins. Messages are done in order, so that a number says which.
struct MessagePlan {
  explicit MessagePlan(const Program &program);

  /// Fails where `communicator`, which may be null, has not the ranks that
  /// `program` was compiled for.
  Status check(const Program &program, const Communicator *communicator) const;

  /// How many ranks the program was compiled for.
  int64_t ranks = 1;
  /// The launches that are messages.
  std::vector<size_t> launches;
  /// Of each launch, and of the end behind the last: how many messages are over
  /// when it begins. Messages themselves wait for none.
  std::vector<size_t> needed;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_MESSAGEPLAN_H
