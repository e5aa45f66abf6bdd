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
/// f64 operands, rounded once to the result's type. docs/Dialects/Exe.md says
/// what each option computes; obstacle() names the combinations that do not
/// exist.
struct GemmProblem {
  /// What happens to the sums. A gradient multiplies them by the activation's
  /// derivative at what the forward product left in its auxiliary buffer.
  enum class Activation : uint8_t {
    None,
    Relu,
    GeluTanh,
    ReluGradient,
    GeluTanhGradient
  };
  /// How f32 operands may be multiplied: as they are, rounded to tf32, or as
  /// nine products of three bf16 terms each, which is f32's precision.
  enum class Compute : uint8_t { Native, Tf32, Bf16x9 };
  /// What the bias gradient sums: a over k (m elements), b over k (n elements)
  /// or the result over its rows (n elements).
  enum class BiasGradient : uint8_t { None, A, B, Result };

  int64_t m = 1, n = 1, k = 1, batch = 1;
  /// Types of a and of b, and of bias, residual and d.
  ElementType operandA = ElementType::F32, operandB = ElementType::F32,
              result = ElementType::F32;
  /// Whether a lies as [k, m], b as [n, k].
  bool transposeA = false, transposeB = false;
  /// Whether one a, one b serves all batches.
  bool sharedA = false, sharedB = false;
  Activation activation = Activation::None;
  bool bias = false, residual = false;
  /// Whether a forward activation leaves what its gradient needs: GELU its
  /// input in the result's type, ReLU a bit for each element.
  bool auxiliary = false;
  BiasGradient biasGradient = BiasGradient::None;
  Compute compute = Compute::Native;
  /// Of 8-bit operands: whether the sums are multiplied by a scale of a and one
  /// of b.
  bool scales = false;
  /// Of 8-bit results: whether they are multiplied by a scale, and whether the
  /// largest magnitude before that is stored.
  bool resultScale = false, amax = false;

  /// What a buffer is. Scales and the largest magnitude are one f32 each.
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
  /// The buffers in order: those that are read as Role lists them, then the
  /// result, an auxiliary buffer that is written, and the other results.
  /// nullopt where an extent is not positive or a size does not fit in 63 bits.
  std::optional<std::vector<Slot>> slots() const;
  /// Why no library has this product, as the end of "product ... ": "" where
  /// one has.
  std::string obstacle() const;

  bool isGradient() const { return activation >= Activation::ReluGradient; }
  bool isRelu() const {
    return activation == Activation::Relu ||
           activation == Activation::ReluGradient;
  }
  /// Type of the bias: the result's, but bf16 where 8-bit operands give a
  /// result of f32 or of 8 bits.
  ElementType biasType() const;
  /// Bits between the lines of ReLU's auxiliary buffer, elements between those
  /// of GELU's.
  int64_t auxiliaryPitch() const;
  /// "bf16 32x16x784 transposed b, bias, relu, f32": names the problem in
  /// messages and caches.
  std::string toString() const;

  bool operator==(const GemmProblem &other) const = default;
};

} // namespace mpc

#endif // MPC_RUNTIME_GEMM_H
