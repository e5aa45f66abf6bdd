//===- LoopKernelText.h - texts of kernels for tests ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels are written with $T for the element type and other words in capitals
// behind a $ for shapes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_LOOPKERNELTEXT_H
#define MPC_TEST_UNIT_TARGET_CUDA_LOOPKERNELTEXT_H

#include "CudaKernelRunner.h"

#include <map>
#include <string>
#include <vector>

namespace mpc {

/// `text` with every key replaced by its value.
inline std::string substitute(std::string text,
                              const std::map<std::string, std::string> &by) {
  for (const auto &[from, to] : by)
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

/// The function `@k` around `body`, which ends in a return.
inline std::string loopKernel(const std::string &arguments,
                              const std::string &results,
                              const std::string &body) {
  return "func.func private @k(" + arguments + ") -> (" + results +
         ") attributes {mpc.kernel_kind = \"elementwise\"} {\n" + body +
         "\n}\n";
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

#endif // MPC_TEST_UNIT_TARGET_CUDA_LOOPKERNELTEXT_H
