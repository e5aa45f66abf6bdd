//===- Gemm.cpp - GEMM problem for a vendor library -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gemm.h"

using namespace mpc;

/// Alignment of the rows of ReLU's auxiliary bit mask, in bits.
static constexpr int64_t kMaskBits = 128;

ElementType GemmProblem::biasType() const {
  bool isWide = result == ElementType::F32 || isFloat8(result);
  return isFloat8(operandA) && isWide ? ElementType::BF16 : result;
}

int64_t GemmProblem::auxiliaryPitch() const {
  return isRelu() ? (n + kMaskBits - 1) / kMaskBits * kMaskBits : n;
}

std::optional<std::vector<GemmProblem::Slot>> GemmProblem::slots() const {
  // Reject overflow of the mask's pitch as well.
  if (m < 1 || n < 1 || k < 1 || batch < 1 || n > INT64_MAX - kMaskBits)
    return std::nullopt;
  std::vector<Slot> list;
  bool fits = true;
  auto add = [&](Role role, ElementType type, std::vector<int64_t> extents,
                 bool written = false) {
    std::optional<int64_t> bytes =
        TensorType{type, std::move(extents)}.byteCount();
    fits &= bytes.has_value();
    list.push_back({role, type, bytes.value_or(0), written});
  };
  auto addAuxiliary = [&](bool written) {
    if (isRelu())
      add(Role::Auxiliary, ElementType::UI8, {batch, m, auxiliaryPitch() / 8},
          written);
    else
      add(Role::Auxiliary, result, {batch, m, n}, written);
  };
  add(Role::A, operandA, {sharedA ? 1 : batch, m, k});
  add(Role::B, operandB, {sharedB ? 1 : batch, k, n});
  if (scales) {
    add(Role::ScaleA, ElementType::F32, {});
    add(Role::ScaleB, ElementType::F32, {});
  }
  if (bias)
    add(Role::Bias, biasType(), {n});
  if (residual)
    add(Role::Residual, result, {batch, m, n});
  if (isGradient())
    addAuxiliary(/*written=*/false);
  if (resultScale)
    add(Role::ResultScale, ElementType::F32, {});
  add(Role::Result, result, {batch, m, n}, /*written=*/true);
  if (auxiliary)
    addAuxiliary(/*written=*/true);
  if (biasGradient != BiasGradient::None)
    add(Role::BiasGradient, result, {biasGradient == BiasGradient::A ? m : n},
        /*written=*/true);
  if (amax)
    add(Role::Amax, ElementType::F32, {}, /*written=*/true);
  if (!fits)
    return std::nullopt;
  return list;
}

/// Name in toString() and messages: "relu".
static const char *nameOf(GemmProblem::Activation activation) {
  switch (activation) {
  case GemmProblem::Activation::None:
    return "none";
  case GemmProblem::Activation::Relu:
    return "relu";
  case GemmProblem::Activation::GeluTanh:
    return "gelu";
  case GemmProblem::Activation::ReluGradient:
    return "relu gradient";
  case GemmProblem::Activation::GeluTanhGradient:
    return "gelu gradient";
  }
  return "";
}

/// Part of obstacle() for 8-bit floats.
static std::string obstacleOf8Bits(const GemmProblem &p) {
  bool narrowA = isFloat8(p.operandA), narrowB = isFloat8(p.operandB);
  if (!narrowA && !narrowB) {
    if (p.scales)
      return "scales operands that are not 8-bit floats";
    if (isFloat8(p.result))
      return "has an 8-bit result of operands that are not 8-bit";
    return p.operandA == p.operandB ? "" : "has operands of different types";
  }
  if (!narrowA || !narrowB)
    return "has only one 8-bit operand";
  if (p.operandA == ElementType::F8E5M2 && p.operandB == ElementType::F8E5M2)
    return "has two operands of type f8E5M2";
  if (p.result == ElementType::F64)
    return "has an f64 result of 8-bit operands";
  if (p.result == ElementType::F8E5M2 && p.operandA == p.operandB)
    return "has an f8E5M2 result of f8E4M3FN operands";
  if (p.transposeA || !p.transposeB)
    return "has 8-bit operands whose layouts are not [m, k] and [n, k]";
  if (p.m % 16 || p.n % 16 || p.k % 16)
    return "has 8-bit operands whose extents are not multiples of 16";
  if (p.isGradient() || p.auxiliary ||
      p.biasGradient != GemmProblem::BiasGradient::None)
    return "has a gradient epilogue with 8-bit operands";
  if (p.residual && isFloat8(p.result))
    return "has a residual and an 8-bit result";
  return "";
}

std::string GemmProblem::obstacle() const {
  if (!slots())
    return "has no size that fits in memory";
  if (!isFloat(operandA) || !isFloat(operandB) || !isFloat(result))
    return "has operands or a result that are not floats";
  if ((resultScale || amax) && !isFloat8(result))
    return "has a result scale or amax of a result that is not 8-bit";
  if (std::string text = obstacleOf8Bits(*this); !text.empty())
    return text;
  if (compute != Compute::Native && operandA != ElementType::F32)
    return "rounds operands that are not f32";
  bool hasActivation = activation != Activation::None;
  if (residual && hasActivation)
    return std::string("has both a residual and the activation ") +
           nameOf(activation);
  if (bias && isGradient())
    return std::string("has both a bias and the activation ") +
           nameOf(activation);
  if (auxiliary && (!hasActivation || isGradient()))
    return "has an auxiliary output but no activation";
  if ((auxiliary || isGradient()) && !isRelu() && n % 8)
    return "has an auxiliary buffer whose rows of " + std::to_string(n) +
           " elements are not multiples of 8";
  if (biasGradient == BiasGradient::None)
    return "";
  if (batch != 1)
    return "has a bias gradient and " + std::to_string(batch) + " batches";
  if (biasGradient == BiasGradient::Result)
    return isGradient() ? "" : "sums a result without an activation gradient";
  if (hasActivation || bias || residual)
    return "sums an operand and has another epilogue";
  return "";
}

std::string GemmProblem::toString() const {
  std::string text(elementTypeName(operandA));
  if (operandA != operandB)
    text += " by " + std::string(elementTypeName(operandB));
  text += ' ';
  if (batch > 1)
    text += std::to_string(batch) + "x";
  text += std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  if (compute == Compute::Tf32)
    text += " tf32";
  if (compute == Compute::Bf16x9)
    text += " bf16x9";
  auto note = [&](bool holds, const char *what) {
    if (holds)
      text += std::string(", ") + what;
  };
  note(transposeA, "transposed a");
  note(transposeB, "transposed b");
  note(sharedA, "shared a");
  note(sharedB, "shared b");
  note(scales, "scales");
  note(bias, "bias");
  note(residual, "residual");
  note(activation != Activation::None, nameOf(activation));
  note(auxiliary, "auxiliary");
  note(biasGradient == BiasGradient::A, "sum of a");
  note(biasGradient == BiasGradient::B, "sum of b");
  note(biasGradient == BiasGradient::Result, "sum of the result");
  note(resultScale, "result scale");
  note(amax, "amax");
  return text + ", " + std::string(elementTypeName(result));
}
