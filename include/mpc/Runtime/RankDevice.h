//===- RankDevice.h - GPUs of data-parallel ranks ---------------*- C++ -*-===//
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

/// Creates a GPU device whose programs communicate with those of the other
/// ranks of `group` through NCCL, which is loaded with the first such program.
/// All ranks load the same programs in the same order; the NCCL id is exchanged
/// through `group`. Unavailable on all ranks if one has no NCCL. Reductions
/// have NCCL's order.
Result<Device> cudaForRanks(const CudaDeviceOptions &options,
                            const std::shared_ptr<Communicator> &group);

/// Returns the number of ranks of a device that performs collectives itself; 0
/// if runs need a communicator.
int64_t ranksOf(const Device &device);

/// Returns the index of this rank among the ranks of `group` on the same
/// machine; collective.
Result<int> localRank(Communicator &group);

} // namespace mpc

#endif // MPC_RUNTIME_RANKDEVICE_H
