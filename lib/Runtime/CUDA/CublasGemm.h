//===- CublasGemm.h - GEMM by cuBLASLt -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUBLASGEMM_H
#define MPC_LIB_RUNTIME_CUDA_CUBLASGEMM_H

#include "CublasHandle.h"
#include "CudaContext.h"

#include "mpc/Runtime/Gemm.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// A cublasLtHandle_t for the device whose context is current at creation.
/// Thread-safe.
class BlasContext {
public:
  /// `device` is made current to destroy the handle; may be null.
  static Result<std::shared_ptr<BlasContext>>
  create(const Blas &blas, std::shared_ptr<CudaContext> device = nullptr);
  ~BlasContext();
  BlasContext(const BlasContext &) = delete;
  BlasContext &operator=(const BlasContext &) = delete;

  const Blas &library() const { return blas; }
  BlasHandle handle() const { return raw; }

private:
  BlasContext(const Blas &blas, std::shared_ptr<CudaContext> device,
              BlasHandle raw)
      : blas(blas), device(std::move(device)), raw(raw) {}
  const Blas &blas;
  std::shared_ptr<CudaContext> device;
  BlasHandle raw;
};

/// cuBLASLt descriptors of one GEMM. The library is column-major: it computes
/// d^T = b^T a^T, so that a row-major bias has the layout that it expects.
class CublasGemm {
public:
  /// Workspace limit of candidates, in bytes (the library's recommendation for
  /// sm_90).
  static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

  /// InvalidArgument for a problem with an obstacle, Unavailable if the library
  /// is too old for it. `alignments` are those of the buffers in bytes, in the
  /// problem's order; empty: kBufferAlignment each.
  static Result<std::shared_ptr<CublasGemm>>
  create(std::shared_ptr<BlasContext> context, const GemmProblem &problem,
         std::span<const size_t> alignments = {});
  ~CublasGemm();
  CublasGemm(const CublasGemm &) = delete;
  CublasGemm &operator=(const CublasGemm &) = delete;

  const GemmProblem &problem() const { return gemm; }
  /// " 64 16 64": alignment of each buffer, part of the autotuning key.
  std::string alignmentText() const;
  const Blas &library() const { return context->library(); }
  /// Returns at most `most` algorithms, in the order of the library's
  /// heuristics.
  Result<std::vector<BlasCandidate>> candidates(int most) const;

  /// Enqueues the GEMM on `stream`, with algorithm `candidate`. `buffers` are
  /// device addresses in the problem's order, `workspace` has the candidate's
  /// size. May be captured into a graph. Not thread-safe.
  Status enqueue(std::span<void *const> buffers, const BlasCandidate &candidate,
                 void *workspace, void *stream) const;

private:
  CublasGemm(std::shared_ptr<BlasContext> context, const GemmProblem &problem)
      : context(std::move(context)), gemm(problem) {}
  Status describe();
  Status describeEpilogue();
  Status describeLayouts();
  Status layout(BlasHandle &handle, ElementType type, int64_t rows,
                int64_t columns, bool shared);
  Status setPreferences(BlasHandle preference) const;
  /// Returns the alignment of the buffer with that role; 0 if there is none.
  size_t alignmentOf(GemmProblem::Role role) const;
  Status set(int attribute, const void *value, size_t bytes) const;
  Status check(BlasResult result, const char *call) const;

  std::shared_ptr<BlasContext> context;
  GemmProblem gemm;
  std::vector<GemmProblem::Slot> slots;
  /// Alignment of each slot's buffer, in bytes.
  std::vector<size_t> alignments;
  /// `layoutC` is the residual's, with a type that is compatible with the
  /// result.
  BlasHandle desc = nullptr, layoutA = nullptr, layoutB = nullptr,
             layoutC = nullptr, layoutD = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUBLASGEMM_H
