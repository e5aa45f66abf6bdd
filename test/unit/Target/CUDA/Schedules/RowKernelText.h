//===- RowKernelText.h - texts of row kernels for tests ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_ROWKERNELTEXT_H
#define MPC_TEST_UNIT_TARGET_CUDA_ROWKERNELTEXT_H

#include "CudaKernelRunner.h"

#include <initializer_list>
#include <string>
#include <utility>

namespace mpc {

/// `text` with each name replaced by its value.
inline std::string
fill(std::string text,
     std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto &[name, value] : values)
    for (size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

/// The kernel `@k` around `body`, which ends in a return. `attributes` go
/// behind its kind.
inline std::string rowKernel(const std::string &arguments,
                             const std::string &results,
                             const std::string &body,
                             const std::string &attributes = "") {
  return "func.func private @k(" + arguments + ") -> (" + results +
         ") attributes {mpc.kernel_kind = \"row\"" + attributes + "} {\n" +
         body + "\n}\n";
}

inline CudaKernelCheck ofFamily(const char *family, double scale = 1.0) {
  CudaKernelCheck check;
  check.family = family;
  check.scale = scale;
  return check;
}

/// Adds a kernel per element type, in place of $T.
inline void addTypes(CudaKernelBatch &batch,
                     std::initializer_list<const char *> types,
                     const std::string &text, const CudaKernelCheck &check) {
  for (const char *type : types)
    batch.add(fill(text, {{"$T", type}}), check);
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_ROWKERNELTEXT_H
