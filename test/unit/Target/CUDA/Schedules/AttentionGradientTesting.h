//===- AttentionGradientTesting.h - its kernels under test ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTTESTING_H

#include "CudaKernelRunner.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FormatVariadic.h"

namespace mpc {

/// Query [batch, heads, s, d], key [batch, groups, t, d], value [batch, groups,
/// t, e], a gradient [batch, heads, s, e], and what is made of them.
struct AttentionGradientCase {
  int64_t batch, heads, groups, s, t, d, e;
  std::string type;
  /// The mask's tensor type without "tensor<>".
  std::string mask = "";
  std::string flags = "";
  /// The gradient's element type; empty: that of the operands.
  std::string gradient = "";
  /// Numbers of the results that the kernel stores.
  std::string stored = "012";

  std::string text() const {
    auto tensor = [&](int64_t h, int64_t rows, int64_t columns,
                      const std::string &element) {
      return llvm::formatv("tensor<{0}x{1}x{2}x{3}x{4}>", batch, h, rows,
                           columns, element)
          .str();
    };
    std::string types[] = {tensor(heads, s, d, type),
                           tensor(groups, t, d, type),
                           tensor(groups, t, e, type)};
    std::string outer = tensor(heads, s, e, gradient.empty() ? type : gradient);
    std::string argument = mask.empty() ? "" : ", %m: tensor<" + mask + ">";
    std::string use = mask.empty() ? "" : " mask(%m)";
    std::string maskType = mask.empty() ? "" : ", tensor<" + mask + ">";
    std::string values, results;
    for (char number : stored) {
      std::string comma = values.empty() ? "" : ", ";
      values += comma + "%0#" + number;
      results += comma + types[number - '0'];
    }
    return llvm::formatv(
        "func.func private @k(%q: {0}, %k: {1}, %v: {2}, %g: {3}{4}) -> ({5}) "
        "attributes {{mpc.kernel_kind = \"attention\"} {{\n"
        "%0:3 = mpc.attention_gradient %q, %k, %v, %g{6} scale(2.500000e-01) "
        "{7} : ({0}, {1}, {2}, {3}{8}) -> ({0}, {1}, {2})\n"
        "return {9} : {5}\n}\n",
        types[0], types[1], types[2], outer, argument, results, use, flags,
        maskType, values);
  }
};

inline CudaKernelCheck attentionGradientCheck(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "attention_gradient";
  // Roles go by the order in which blocks run.
  check.orders = {ThreadOrder::Ascending, ThreadOrder::Shuffled,
                  ThreadOrder::Descending};
  return check;
}

inline void expectAttentionGradients(
    llvm::ArrayRef<AttentionGradientCase> cases,
    const CudaKernelCheck &check = attentionGradientCheck()) {
  CudaKernelBatch batch;
  for (const AttentionGradientCase &each : cases)
    batch.add(each.text(), check);
  batch.expect();
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONGRADIENTTESTING_H
