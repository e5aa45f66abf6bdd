//===- CollectiveTransfer.h - execution of one collective -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All tensors of a launch are sent together. Reductions do not depend on the
// transport: each rank reduces one shard, or everything for a small message, in
// rank order.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETRANSFER_H
#define MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETRANSFER_H

#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// Maximum total size, in bytes, for which every rank gathers and reduces all
/// terms itself: one network step instead of two.
inline constexpr size_t kSmallMessageBytes = size_t(16) << 10;

/// Growable send or receive memory.
class Staging {
public:
  /// Returns at least `bytes`, discarding the contents; null if allocation
  /// fails.
  char *reserve(size_t bytes);

private:
  std::shared_ptr<void> memory;
  size_t size = 0;
};

/// Send and receive memory of a collective.
struct CollectiveBuffers {
  Staging sent, received;
};

/// Performs the collective of a launch among the ranks of `communicator`.
Status exchange(const Launch &launch, std::span<char *const> buffers,
                Communicator &communicator, CollectiveBuffers &memory);

/// Performs a collective of a single rank.
void copySingleRank(const Launch &launch, std::span<char *const> buffers);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_COLLECTIVETRANSFER_H
