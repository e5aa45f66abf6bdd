//===- GemmLibrary.h - interface of GEMM libraries --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interface between programs and a vendor GEMM library. The context is current
// in every call.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H

#include "CudaDriver.h"
#include "mpc/Runtime/Gemm.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// One GEMM with a selected algorithm.
class PreparedGemm {
public:
  virtual ~PreparedGemm() = default;
  /// Workspace of a call, in bytes, aligned to 256 bytes; calls on one stream
  /// may share it.
  virtual int64_t workspaceBytes() const = 0;
  /// Enqueues the GEMM. `buffers` are in the problem's order. The stream may be
  /// capturing: the call neither allocates nor blocks.
  virtual Status enqueue(std::span<const CuAddress> buffers,
                         CuAddress workspace, CuHandle stream) = 0;
};

/// A GEMM library on one GPU. Thread-safe.
class GemmLibrary {
public:
  virtual ~GemmLibrary() = default;
  /// Selects an algorithm for `problem`; may time candidates on the GPU.
  /// `alignments` are the buffers' guaranteed alignments in bytes, powers of
  /// two. `where` is the location in messages.
  virtual Result<std::shared_ptr<PreparedGemm>>
  prepare(const GemmProblem &problem, std::span<const size_t> alignments,
          const std::string &where) = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H
