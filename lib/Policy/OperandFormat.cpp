//===- OperandFormat.cpp - quantized operands of contractions -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/OperandFormat.h"

#include "mpc/Support/NarrowFloat.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;
using namespace mpc;

/// In the order of the enums.
static constexpr StringLiteral kOperandTypes[] = {
    "float8_e4m3fn", "float8_e5m2",   "float4_e2m1fn",
    "float6_e3m2fn", "float6_e2m3fn", "int8"};
static constexpr StringLiteral kScalings[] = {
    "none", "delayed", "current", "row", "calibrated", "block", "mx", "nvfp4"};
static constexpr StringLiteral kRoundings[] = {"floor", "rceil", "ceil",
                                               "even"};

template <typename Enum>
static std::optional<Enum> parseEnum(ArrayRef<StringLiteral> names,
                                     StringRef name) {
  const auto *found = llvm::find(names, name);
  if (found == names.end())
    return std::nullopt;
  return Enum(found - names.begin());
}

StringRef mpc::stringify(OperandType type) { return kOperandTypes[int(type)]; }

std::optional<OperandType> mpc::parseOperandType(StringRef name) {
  return parseEnum<OperandType>(kOperandTypes, name);
}

double mpc::largestOf(OperandType type) {
  static constexpr const NarrowFloat *kFormats[] = {
      &kFloat8E4M3FN, &kFloat8E5M2, &kFloat4E2M1FN, &kFloat6E3M2FN,
      &kFloat6E2M3FN};
  return type == OperandType::Int8 ? 127 : kFormats[int(type)]->largest();
}

StringRef mpc::stringify(OperandScaling scaling) {
  return kScalings[int(scaling)];
}

std::optional<OperandScaling> mpc::parseOperandScaling(StringRef name) {
  return parseEnum<OperandScaling>(kScalings, name);
}

StringRef mpc::stringify(ScaleRounding rounding) {
  return kRoundings[int(rounding)];
}

std::optional<ScaleRounding> mpc::parseScaleRounding(StringRef name) {
  return parseEnum<ScaleRounding>(kRoundings, name);
}

int64_t OperandFormat::blockSize() const {
  switch (scaling) {
  case OperandScaling::Block:
    return 128;
  case OperandScaling::Mx:
    return 32;
  case OperandScaling::NvFp4:
    return 16;
  default:
    return 0;
  }
}

std::string OperandFormat::describe() const {
  std::string text = (stringify(scaling) + ", " + stringify(forward)).str();
  if (backward != forward)
    text += (" and " + stringify(backward)).str();
  return text;
}

std::string OperandFormat::canonical() const {
  if (!isActive())
    return "";
  return (describe() + "," + Twine(margin) + "," + Twine(history) + "," +
          Twine(mostRecent) + "," + Twine(powersOfTwo) + "," +
          stringify(rounding) + "," + Twine(weightSquares) + "," +
          Twine(hadamard) + "," + Twine(stochastic) + "," +
          std::to_string(keepLast) + "," + join(kinds, " "))
      .str();
}
