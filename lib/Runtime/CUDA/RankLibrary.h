//===- RankLibrary.h - messages among GPUs by a library ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between programs and the library that sends their messages. The
// context is current in every call.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_RANKLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_RANKLIBRARY_H

#include "CudaDriver.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <memory>
#include <span>

namespace mpc::detail {

/// One rank's GPU among those that train together. Every rank makes the same
/// calls in the same order; one thread at a time.
class RankLibrary {
public:
  virtual ~RankLibrary() = default;
  virtual int64_t ranks() const = 0;
  /// Memory that the message of a launch needs for itself; messages on one
  /// stream may share it.
  virtual int64_t workspaceBytes(const Launch &launch) const = 0;
  /// Enqueues a message, whose buffers are the launch's in order. The stream
  /// may be under capture: the call allocates nothing and waits for nothing.
  virtual Status enqueue(const Launch &launch,
                         std::span<const CuAddress> buffers,
                         CuAddress workspace, CuHandle stream) = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_RANKLIBRARY_H
