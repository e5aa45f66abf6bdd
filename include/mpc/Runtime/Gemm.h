//===- Gemm.h - one matrix product for a library ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_GEMM_H
#define MPC_RUNTIME_GEMM_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// `d[batch, m, n] = activation(a[batch, m, k] * b[batch, k, n] + bias[n] +
/// residual[batch, m, n])`, row-major and contiguous; sums in f32, in f64 for
/// f64 operands, rounded once to the result's type. Buffers in order: a, b,
/// bias where there is one, residual where there is one, d.
struct GemmProblem {
  enum class Activation : uint8_t { None, Relu, GeluTanh };

  int64_t m = 1, n = 1, k = 1, batch = 1;
  /// Types of a and b, and of bias, residual and d.
  ElementType operand = ElementType::F32, result = ElementType::F32;
  /// Whether a lies as [k, m], b as [n, k].
  bool transposeA = false, transposeB = false;
  /// Whether one a, one b serves all batches.
  bool sharedA = false, sharedB = false;
  Activation activation = Activation::None;
  bool bias = false, residual = false;
  /// Whether f32 operands may be rounded to tf32.
  bool tf32 = false;

  /// Bytes of each buffer in order; nullopt where an extent is not positive or
  /// a product does not fit in 63 bits.
  std::optional<std::vector<int64_t>> bufferBytes() const;
  /// "bf16 32x16x784 transposed b, bias, relu, f32": names the problem in
  /// messages and caches.
  std::string toString() const;

  bool operator==(const GemmProblem &other) const = default;
};

} // namespace mpc

#endif // MPC_RUNTIME_GEMM_H
