//===- KernelBatches.h - kernels for tests, by family -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_KERNELBATCHES_H
#define MPC_TEST_UNIT_TARGET_CUDA_KERNELBATCHES_H

#include "../../KernelText.h"
#include "CudaKernelRunner.h"

namespace mpc {

/// A kernel of rows.
inline std::string rowKernel(const std::string &arguments,
                             const std::string &results,
                             const std::string &body,
                             const std::string &attributes = "") {
  return loopKernel(arguments, results, body, "row", attributes);
}

inline CudaKernelCheck ofFamily(const char *family, double scale = 1.0) {
  CudaKernelCheck check;
  check.family = family;
  check.scale = scale;
  return check;
}

/// Adds a kernel per element type, in place of $T.
inline void addTypes(CudaKernelBatch &batch,
                     const std::vector<std::string> &types,
                     const std::string &text, const CudaKernelCheck &check) {
  for (const std::string &type : types)
    batch.add(substitute(text, {{"$T", type}}), check);
}

/// Kernels that one family has to generate, in one compilation.
class FamilyBatch {
public:
  explicit FamilyBatch(const std::string &family) { check.family = family; }
  ~FamilyBatch() { batch.expect(); }

  void add(const std::string &text,
           const std::map<std::string, std::string> &by = {}) {
    batch.add(substitute(text, by), check);
  }
  void addForTypes(const std::vector<std::string> &types,
                   const std::string &text,
                   std::map<std::string, std::string> by = {}) {
    for (const std::string &type : types) {
      by["$T"] = type;
      add(text, by);
    }
  }

  CudaKernelCheck check;

private:
  CudaKernelBatch batch;
};

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_KERNELBATCHES_H
