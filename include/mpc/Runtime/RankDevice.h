//===- RankDevice.h - GPUs of ranks that train together ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_RANKDEVICE_H
#define MPC_RUNTIME_RANKDEVICE_H

#include "mpc/Runtime/Communicator.h"
#include "mpc/Runtime/Device.h"

#include <cstdint>
#include <memory>

namespace mpc {

/// A GPU whose programs may send messages to those of `group`'s other ranks, by
/// NCCL, which is loaded when the first such program is. All ranks load the
/// same programs in the same order; by `group` they agree where to meet.
/// Unavailable on all ranks where one has no NCCL. Sums have NCCL's order.
Result<Device> cudaForRanks(const CudaDeviceOptions &options,
                            const std::shared_ptr<Communicator> &group);

/// How many ranks' messages programs on a device send by themselves; 0 where
/// runs are given a communicator.
int64_t ranksOf(const Device &device);

/// The number of this rank among those of `group` on the same machine; all
/// ranks call it.
Result<int> localRank(Communicator &group);

} // namespace mpc

#endif // MPC_RUNTIME_RANKDEVICE_H
