//===- FakeQuantization.h - fake quantization of weights --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds weights to the values that a quantized format can represent ("fake
// quantization"), with f32 numbers in and out.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_FAKEQUANTIZATION_H
#define MPC_ANALYSIS_FAKEQUANTIZATION_H

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mpc {

/// Attribute of constants that a policy rounded as weights: the format.
inline constexpr llvm::StringLiteral kWeightsAttr = "mpc.weights";

/// Significant bits of f32, bf16 and f16 numbers.
inline constexpr int kFloat32Bits = 24, kBFloat16Bits = 8, kFloat16Bits = 11;

/// Dequantization of int8, int4 or 8-bit floats: scale * (number - zero).
struct WeightScale {
  float scale = 1;
  int64_t zero = 0;
};

/// Returns the scale for `values`, which are finite and share it, in `format`:
/// the one of least squared error among several that clip, or the one that
/// clips nothing. `squares` are mean squares of the activation that each value
/// multiplies, which weight the error; empty: all weights are 1. Products of
/// the scale and the numbers have at most `bits` significant bits, so that they
/// are exact in the compute type.
WeightScale chooseScale(llvm::ArrayRef<float> values,
                        const WeightFormat &format, int bits = kFloat32Bits,
                        llvm::ArrayRef<float> squares = {});

/// Rounds `values`, which are finite, to the nearest numbers of `format` with
/// `scale`.
void roundToScale(llvm::MutableArrayRef<float> values,
                  const WeightFormat &format, int bits,
                  const WeightScale &scale);

/// The same for a row of columns with a scale and a zero point each, in a
/// format of integers.
void roundRow(llvm::MutableArrayRef<float> values, const WeightFormat &format,
              int bits, llvm::ArrayRef<float> scales,
              llvm::ArrayRef<float> zeros);

/// Rounds `values`, which are finite and share a scale, to the nearest numbers
/// of `format`; `bits` and `squares` as above.
void roundWeights(llvm::MutableArrayRef<float> values,
                  const WeightFormat &format, int bits = kFloat32Bits,
                  llvm::ArrayRef<float> squares = {});

} // namespace mpc

#endif // MPC_ANALYSIS_FAKEQUANTIZATION_H
