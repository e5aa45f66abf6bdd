//===- GemmLibrary.h - matrix products by a library -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The seam between programs and the library that computes their products. The
// context is current in every call.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H
#define MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H

#include "CudaDriver.h"
#include "mpc/Runtime/Gemm.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// One problem, with everything about it decided.
class PreparedGemm {
public:
  virtual ~PreparedGemm() = default;
  /// Memory that a call needs for itself, aligned to 256 bytes; calls on one
  /// stream may share it.
  virtual int64_t workspaceBytes() const = 0;
  /// Enqueues the product. `buffers` are the problem's in order. The stream may
  /// be under capture: the call allocates nothing and waits for nothing.
  virtual Status enqueue(std::span<const CuAddress> buffers,
                         CuAddress workspace, CuHandle stream) = 0;
};

/// A library on one GPU. Members may be called from several threads at once.
class GemmLibrary {
public:
  virtual ~GemmLibrary() = default;
  /// Decides how `problem` is computed; may run candidates on the GPU. The
  /// address of each buffer is a multiple of the number that `alignments` has
  /// for it, a power of two. `where` is the place in messages.
  virtual Result<std::shared_ptr<PreparedGemm>>
  prepare(const GemmProblem &problem, std::span<const size_t> alignments,
          const std::string &where) = 0;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_GEMMLIBRARY_H
