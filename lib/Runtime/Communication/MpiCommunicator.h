//===- MpiCommunicator.h - communication by MPI -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H
#define MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H

#include "mpc/Runtime/Communicator.h"

#include <cstddef>

namespace mpc::detail {

/// Maximum bytes of all ranks per call: MPI counts in int, and some libraries
/// overflow when multiplying.
inline constexpr size_t kMostMpiBytes = size_t(1) << 30;

/// joinMpi() with messages in chunks of at most `mostBytes`.
Result<std::shared_ptr<Communicator>>
joinMpi(const CommunicatorOptions &options, size_t mostBytes);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_COMMUNICATION_MPICOMMUNICATOR_H
