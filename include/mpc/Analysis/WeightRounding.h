//===- WeightRounding.h - weights as a policy stores them -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds weights to what a narrow form of them holds: "fake quantisation", with
// f32 numbers in and out.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_WEIGHTROUNDING_H
#define MPC_ANALYSIS_WEIGHTROUNDING_H

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mpc {

/// On constants that a policy rounded as weights: the form, as a string.
inline constexpr llvm::StringLiteral kWeightsAttr = "mpc.weights";

/// Significant bits of f32, bf16 and f16 numbers.
inline constexpr int kFloat32Bits = 24, kBFloat16Bits = 8, kFloat16Bits = 11;

/// What integers of 8 or 4 bits, or 8-bit floats, stand for:
/// scale * (number - zero).
struct WeightScale {
  float scale = 1;
  int64_t zero = 0;
};

/// The scale of `values`, which are finite and share it, for the integers or
/// 8-bit floats of `format`: the one with the least squared error out of some
/// that clip the values, or that which clips none. `squares` are mean squares
/// of what each of `values` is multiplied with: the error is then that of the
/// sum of products where these do not go together; none: all count alike. Its
/// products with the numbers have no more than `bits` significant bits: they
/// are numbers of the type that is multiplied.
WeightScale chooseScale(llvm::ArrayRef<float> values,
                        const WeightFormat &format, int bits = kFloat32Bits,
                        llvm::ArrayRef<float> squares = {});

/// Rounds `values`, which are finite and share a scale, to the nearest numbers
/// that `format` holds; `bits` and `squares` as above.
void roundWeights(llvm::MutableArrayRef<float> values,
                  const WeightFormat &format, int bits = kFloat32Bits,
                  llvm::ArrayRef<float> squares = {});

} // namespace mpc

#endif // MPC_ANALYSIS_WEIGHTROUNDING_H
