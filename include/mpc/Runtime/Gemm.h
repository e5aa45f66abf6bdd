//===- Gemm.h - GEMM problem for a vendor library ---------------*- C++ -*-===//
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
/// residual[batch, m, n])`, row-major and contiguous; accumulated in f32, or
/// f64 for f64 operands, and rounded once to the result type.
/// docs/Reference/Dialects/Exe.md defines the options; obstacle() reports
/// unsupported combinations.
struct GemmProblem {
  /// Epilogue activation. A gradient multiplies the accumulators by the
  /// activation's derivative, computed from the forward GEMM's auxiliary
  /// buffer.
  enum class Activation : uint8_t {
    None,
    Relu,
    GeluTanh,
    ReluGradient,
    GeluTanhGradient
  };
  /// Multiplication of f32 operands: native, rounded to tf32, or a bf16x3 split
  /// with nine bf16 products, which has f32 precision.
  enum class Compute : uint8_t { Native, Tf32, Bf16x9 };
  /// Operand of the bias-gradient reduction: a over k (m elements), b over k (n
  /// elements) or the result over its rows (n elements).
  enum class BiasGradient : uint8_t { None, A, B, Result };

  int64_t m = 1, n = 1, k = 1, batch = 1;
  /// Types of a, of b, and of bias, residual and d.
  ElementType operandA = ElementType::F32, operandB = ElementType::F32,
              result = ElementType::F32;
  /// True if a is stored as [k, m], b as [n, k].
  bool transposeA = false, transposeB = false;
  /// True if all batches share one a, one b.
  bool sharedA = false, sharedB = false;
  Activation activation = Activation::None;
  bool bias = false, residual = false;
  /// True if a forward activation stores what its gradient needs: GELU its
  /// input in the result type, ReLU one bit per element.
  bool auxiliary = false;
  BiasGradient biasGradient = BiasGradient::None;
  Compute compute = Compute::Native;
  /// 8-bit operands: true if the accumulators are multiplied by scales of a and
  /// b.
  bool scales = false;
  /// 8-bit results: true if they are multiplied by a scale; true if the largest
  /// magnitude before scaling (amax) is stored.
  bool resultScale = false, amax = false;

  /// Role of a buffer. Scales and amax are one f32 each.
  enum class Role : uint8_t {
    A,
    B,
    ScaleA,
    ScaleB,
    Bias,
    Residual,
    Auxiliary,
    ResultScale,
    Result,
    BiasGradient,
    Amax
  };
  struct Slot {
    Role role;
    ElementType type;
    int64_t bytes;
    bool written;
  };
  /// Returns the buffers in order: inputs in the order of Role, then the
  /// result, a written auxiliary buffer, and the other outputs; nullopt if an
  /// extent is not positive or a size overflows 63 bits.
  std::optional<std::vector<Slot>> slots() const;
  /// Returns why no library supports this GEMM, as the end of "GEMM ...";
  /// empty if one does. Then slots() has a value.
  std::string obstacle() const;

  bool isGradient() const { return activation >= Activation::ReluGradient; }
  bool isRelu() const {
    return activation == Activation::Relu ||
           activation == Activation::ReluGradient;
  }
  /// Returns the bias type: the result type, but bf16 for 8-bit operands with
  /// an f32 or 8-bit result.
  ElementType biasType() const;
  /// Returns the row pitch of the auxiliary buffer: in bits for ReLU, in
  /// elements for GELU.
  int64_t auxiliaryPitch() const;
  /// "bf16 32x16x784 transposed b, bias, relu, f32": name in messages and cache
  /// keys.
  std::string toString() const;

  bool operator==(const GemmProblem &other) const = default;
};

} // namespace mpc

#endif // MPC_RUNTIME_GEMM_H
