//===- CollectiveBackend.h - interface of GPU collectives -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interface between programs and a collective-communication library. The
// context is current in every call.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_COLLECTIVEBACKEND_H
#define MPC_LIB_RUNTIME_CUDA_COLLECTIVEBACKEND_H

#include "CudaDriver.h"
#include "mpc/Runtime/Program.h"

#include <cstdint>
#include <memory>
#include <span>

namespace mpc::detail {

/// One rank's GPU in a group. All ranks make the same calls in the same order;
/// one thread at a time.
class CollectiveBackend {
public:
  virtual ~CollectiveBackend() = default;
  virtual int64_t ranks() const = 0;
  /// Workspace of a launch's collective, in bytes; collectives on one stream
  /// may share it.
  virtual int64_t workspaceBytes(const Launch &launch) const = 0;
  /// Enqueues a collective on the launch's buffers. The stream may be
  /// capturing: the call neither allocates nor blocks.
  virtual Status enqueue(const Launch &launch,
                         std::span<const CuAddress> buffers,
                         CuAddress workspace, CuHandle stream) = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_COLLECTIVEBACKEND_H
