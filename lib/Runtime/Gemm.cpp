//===- Gemm.cpp - one matrix product for a library ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Gemm.h"

using namespace mpc;

std::optional<std::vector<int64_t>> GemmProblem::bufferBytes() const {
  if (m < 1 || n < 1 || k < 1 || batch < 1)
    return std::nullopt;
  auto bytesOf = [](ElementType type, std::vector<int64_t> extents) {
    return TensorType{type, std::move(extents)}.byteCount();
  };
  std::vector<std::optional<int64_t>> sizes = {
      bytesOf(operand, {sharedA ? 1 : batch, m, k}),
      bytesOf(operand, {sharedB ? 1 : batch, k, n})};
  if (bias)
    sizes.push_back(bytesOf(result, {n}));
  if (residual)
    sizes.push_back(bytesOf(result, {batch, m, n}));
  sizes.push_back(bytesOf(result, {batch, m, n}));
  std::vector<int64_t> bytes;
  for (std::optional<int64_t> size : sizes) {
    if (!size)
      return std::nullopt;
    bytes.push_back(*size);
  }
  return bytes;
}

std::string GemmProblem::toString() const {
  std::string text(elementTypeName(operand));
  text += ' ';
  if (batch > 1)
    text += std::to_string(batch) + "x";
  text += std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  if (tf32)
    text += " tf32";
  if (transposeA)
    text += ", transposed a";
  if (transposeB)
    text += ", transposed b";
  if (sharedA)
    text += ", shared a";
  if (sharedB)
    text += ", shared b";
  if (bias)
    text += ", bias";
  if (residual)
    text += ", residual";
  if (activation == Activation::Relu)
    text += ", relu";
  if (activation == Activation::GeluTanh)
    text += ", gelu";
  return text + ", " + std::string(elementTypeName(result));
}
