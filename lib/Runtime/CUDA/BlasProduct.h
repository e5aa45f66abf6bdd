//===- BlasProduct.h - matrix products by cuBLASLt --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_BLASPRODUCT_H
#define MPC_LIB_RUNTIME_CUDA_BLASPRODUCT_H

#include "Blas.h"
#include "CudaContext.h"

#include "mpc/Runtime/Gemm.h"

#include <memory>
#include <span>

namespace mpc::detail {

/// A handle of the library, for the device whose context is current when it is
/// made. Calls from several threads at once are fine.
class BlasContext {
public:
  /// `device` is made current for the handle's end; null where there is none.
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

/// One problem, described to the library. The library is column-major: it gets
/// d^T = b^T a^T, so that a row-major bias runs along the rows that it expects.
class BlasProduct {
public:
  /// Most bytes of workspace that candidates may ask for (the library's own
  /// advice for sm_90).
  static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

  /// InvalidArgument for a problem that has an obstacle, Unavailable where the
  /// library is too old for it. `alignments` are those of the buffers, in the
  /// problem's order; empty: kBufferAlignment each.
  static Result<std::shared_ptr<BlasProduct>>
  create(std::shared_ptr<BlasContext> context, const GemmProblem &problem,
         std::span<const size_t> alignments = {});
  ~BlasProduct();
  BlasProduct(const BlasProduct &) = delete;
  BlasProduct &operator=(const BlasProduct &) = delete;

  const GemmProblem &problem() const { return gemm; }
  /// " 64 16 64", of each buffer: part of what names a choice of candidates.
  std::string alignmentText() const;
  const Blas &library() const { return context->library(); }
  /// At most `most` ways to compute it, the library's favourite first.
  Result<std::vector<BlasCandidate>> candidates(int most) const;

  /// Enqueues the product on `stream`, by `candidate`. `buffers` are device
  /// addresses in the problem's order, `workspace` has the candidate's bytes.
  /// May be captured into a graph. Not from two threads at once.
  Status enqueue(std::span<void *const> buffers, const BlasCandidate &candidate,
                 void *workspace, void *stream) const;

private:
  BlasProduct(std::shared_ptr<BlasContext> context, const GemmProblem &problem)
      : context(std::move(context)), gemm(problem) {}
  Status describe();
  Status describeEpilogue();
  Status describeLayouts();
  Status layout(BlasHandle &handle, ElementType type, int64_t rows,
                int64_t columns, bool shared);
  Status setPreferences(BlasHandle preference) const;
  /// Alignment of the buffer with that role; 0 where there is none.
  size_t alignmentOf(GemmProblem::Role role) const;
  Status set(int attribute, const void *value, size_t bytes) const;
  Status check(BlasResult result, const char *call) const;

  std::shared_ptr<BlasContext> context;
  GemmProblem gemm;
  std::vector<GemmProblem::Slot> slots;
  /// Of each slot's buffer.
  std::vector<size_t> alignments;
  /// `layoutC` is the residual's, of a type that the result goes with.
  BlasHandle desc = nullptr, layoutA = nullptr, layoutB = nullptr,
             layoutC = nullptr, layoutD = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_BLASPRODUCT_H
