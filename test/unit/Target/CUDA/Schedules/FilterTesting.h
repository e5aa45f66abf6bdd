//===- FilterTesting.h - filters' gradients in a given form -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_FILTERTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_FILTERTESTING_H

#include "GemmTesting.h"
#include "KernelBatches.h"

namespace mpc {

enum class FilterForm { Threads, Product };

/// The form that a kernel `@k` takes by itself.
FilterForm chosenForm(const std::string &text, const CudaTarget &target);

/// The kernel `text` in a form; empty where it cannot have that.
std::string withForm(const std::string &text, FilterForm form,
                     const CudaTarget &target);

/// Kernels in every form that they can have, in one compilation.
class FilterBatch {
public:
  /// Expects that of its kernels as many are products as `products` says.
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
