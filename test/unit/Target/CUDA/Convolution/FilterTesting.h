//===- FilterTesting.h - filter gradients in a given layout -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_FILTERTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_FILTERTESTING_H

#include "Gemm/GemmTesting.h"
#include "Plan/KernelBatches.h"

namespace mpc {

enum class FilterForm { Threads, Product };

/// The kernel `text` with a variant; empty if it does not support it.
std::string withForm(const std::string &text, FilterForm form,
                     const cuda::CudaTarget &target);

/// Kernels in all variants that they support, in one compilation.
class FilterBatch {
public:
  /// Expects that `products` of its kernels are GEMMs.
  explicit FilterBatch(int products) : expected(products) {}
  ~FilterBatch();

  void add(const std::string &text,
           const std::map<std::string, std::string> &by = {});

  CudaKernelCheck check;

private:
  int expected, products = 0;
  CudaKernelBatch batch;
};

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_FILTERTESTING_H
