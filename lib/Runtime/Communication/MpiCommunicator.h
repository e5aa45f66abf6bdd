//===- MpiCommunicator.h - ranks that a launcher started --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H
#define MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H

#include "mpc/Runtime/Communicator.h"

#include <cstddef>

namespace mpc::detail {

/// The most bytes of all ranks in one call: MPI counts in ints, and not every
/// library stops to do so when it multiplies.
inline constexpr size_t kMostMpiBytes = size_t(1) << 30;

/// joinMpi() with messages in pieces of at most `mostBytes`.
Result<std::shared_ptr<Communicator>>
joinMpi(const CommunicatorOptions &options, size_t mostBytes);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H
