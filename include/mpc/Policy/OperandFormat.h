//===- OperandFormat.h - quantized operands of contractions -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `operands` field of a policy: recipes that quantize both operands of a
// contraction to 8 bits or less while the program runs, with scales.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_POLICY_OPERANDFORMAT_H
#define MPC_POLICY_OPERANDFORMAT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// Element types of quantized operands.
enum class OperandType { E4M3, E5M2, E2M1, E3M2, E2M3, Int8 };

/// "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float6_e3m2fn",
/// "float6_e2m3fn", "int8".
llvm::StringRef stringify(OperandType type);
std::optional<OperandType> parseOperandType(llvm::StringRef name);
/// Largest finite number of a type.
double largestOf(OperandType type);

/// What shares a scale, and where the scale comes from.
enum class OperandScaling {
  None,       ///< operands are not quantized
  Delayed,    ///< per tensor, from the largest magnitudes of earlier steps
  Current,    ///< per tensor, from this tensor
  Row,        ///< per row of the result (lhs) or column (rhs), from this tensor
  Calibrated, ///< per tensor from recorded ranges, weights per column
  Block,      ///< per 128 elements of K, weights per 128 x 128
  Mx,         ///< per 32 elements of K, a power of two (OCP MX)
  NvFp4,      ///< per 16 elements of K, and a scale per tensor
};

/// "none", "delayed", "current", "row", "calibrated", "block", "mx", "nvfp4".
llvm::StringRef stringify(OperandScaling scaling);
std::optional<OperandScaling> parseOperandScaling(llvm::StringRef name);

/// How the exponent of an MX scale follows from the largest magnitude.
enum class ScaleRounding {
  Floor, ///< exponent of the largest magnitude (OCP MX 1.0, section 6.3)
  RCeil, ///< of the largest magnitude over the largest number, rounded up
  Ceil,  ///< exponent of the largest magnitude, rounded up
  Even,  ///< exponent of the largest magnitude rounded to the type's fraction
};

/// "floor", "rceil", "ceil", "even".
llvm::StringRef stringify(ScaleRounding rounding);
std::optional<ScaleRounding> parseScaleRounding(llvm::StringRef name);

/// Quantization of the operands of contractions of class low. Sources of the
/// recipes: Micikevicius et al., arXiv 2209.05433 (delayed, current);
/// DeepSeek-V3, arXiv 2412.19437 (block); OCP Microscaling Formats 1.0 and
/// arXiv 2506.08027 (mx); arXiv 2509.25149 (nvfp4).
struct OperandFormat {
  OperandScaling scaling = OperandScaling::None;
  /// Type of activations and weights, and of gradients.
  OperandType forward = OperandType::E4M3, backward = OperandType::E4M3;
  /// Delayed: scales are divided by 2^margin.
  int64_t margin = 0;
  /// Delayed: number of steps whose largest magnitudes determine the scale.
  int64_t history = 1024;
  /// Delayed: the latest largest magnitude counts instead of the history's.
  bool mostRecent = false;
  /// Current: scales are rounded down to powers of two.
  bool powersOfTwo = false;
  /// Mx.
  ScaleRounding rounding = ScaleRounding::RCeil;
  /// Block, nvfp4: weights have one scale per square, else per row of one.
  bool weightSquares = true;
  /// Nvfp4: a random Hadamard transform of the operands of weight gradients.
  bool hadamard = true;
  /// Gradients are rounded stochastically.
  bool stochastic = false;
  /// Share of the contractions of a forward pass, the last ones, whose weights
  /// are not quantized; rounded up. The first contraction and weights that
  /// earlier ones read are.
  double keepLast = 0;
  /// Kinds of contractions: matmul, conv.
  std::vector<std::string> kinds;

  bool isActive() const { return scaling != OperandScaling::None; }
  /// Returns true if scales are shared by a run of elements along K.
  bool isBlocked() const {
    return scaling == OperandScaling::Block || scaling == OperandScaling::Mx ||
           scaling == OperandScaling::NvFp4;
  }
  /// Number of elements along K that share a scale; 0 if all do.
  int64_t blockSize() const;
  /// Short description: "delayed, float8_e4m3fn and float8_e5m2".
  std::string describe() const;
  /// Every field as text, for digests.
  std::string canonical() const;
};

} // namespace mpc

#endif // MPC_POLICY_OPERANDFORMAT_H
