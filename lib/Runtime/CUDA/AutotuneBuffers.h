//===- AutotuneBuffers.h - operands for GEMM autotuning --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_AUTOTUNEBUFFERS_H
#define MPC_LIB_RUNTIME_CUDA_AUTOTUNEBUFFERS_H

#include "CublasGemm.h"
#include "CudaDriver.h"

#include <random>
#include <vector>

namespace mpc::detail {

/// Device memory for timing: several copies of all buffers of a GEMM, and the
/// workspace. Freed with the object.
class AutotuneBuffers {
public:
  explicit AutotuneBuffers(const CudaDriver &driver) : driver(driver) {}
  ~AutotuneBuffers() {
    if (base)
      driver.memFree(base);
  }
  AutotuneBuffers(const AutotuneBuffers &) = delete;
  AutotuneBuffers &operator=(const AutotuneBuffers &) = delete;

  /// Allocates the memory and fills the inputs.
  Status prepare(const GemmProblem &problem, int64_t l2Bytes, CuHandle stream);
  /// Returns the buffers of copy `number % copies`, in the problem's order.
  std::vector<void *> buffers(size_t number) const;
  void *workspace() const { return reinterpret_cast<void *>(base); }
  /// Number of copies, which together exceed the L2 cache.
  size_t copyCount() const { return copies; }

private:
  /// Number of random values per buffer, which repeat after that. A prime, so
  /// that no two rows of a matrix are equal.
  static constexpr size_t kDrawn = (size_t(1) << 17) - 1;

  CuAddress address(size_t copy, size_t slot) const {
    return base + CublasGemm::kWorkspaceBytes + copy * stride + offsets[slot];
  }
  CuResult fill(const GemmProblem::Slot &slot, size_t index,
                std::mt19937 &engine, CuHandle stream);

  const CudaDriver &driver;
  CuAddress base = 0;
  std::vector<size_t> offsets;
  size_t stride = 0, copies = 1;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_AUTOTUNEBUFFERS_H
