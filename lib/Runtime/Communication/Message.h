//===- Message.h - one message among ranks ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All tensors of a launch travel together. Sums do not depend on the transport:
// each rank adds up a piece, or all of a small message, in the order of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_MESSAGE_H
#define MPC_LIB_RUNTIME_COMMUNICATION_MESSAGE_H

#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Runtime/Status.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// Up to so many bytes of all ranks together every rank gets all terms and adds
/// them up itself: one step of the network in place of two.
inline constexpr size_t kSmallMessageBytes = size_t(16) << 10;

/// Memory that messages are put together in. Grows, and is kept.
class Staging {
public:
  /// At least `bytes`; what was there is lost. Null where there is no memory.
  char *reserve(size_t bytes);

private:
  std::shared_ptr<void> memory;
  size_t size = 0;
};

/// Where a message is sent from and received.
struct MessageMemory {
  Staging sent, received;
};

/// Does a launch with a collective of `communicator`'s ranks.
Status exchange(const Launch &launch, std::span<char *const> buffers,
                Communicator &communicator, MessageMemory &memory);

/// Does one that has a single rank.
void copyAlone(const Launch &launch, std::span<char *const> buffers);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_MESSAGE_H
