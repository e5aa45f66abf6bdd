//===- Policy.cpp - precision policies ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of types, classes and algorithms; the class of a kind. Overrides:
// PolicyOverrides.cpp. Maps of layers: PolicyLayers.cpp. Reading:
// PolicyReader.cpp.
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

namespace {

struct TypeFacts {
  PolicyType type;
  StringRef name;
  unsigned bits;
};

} // namespace

static constexpr TypeFacts kTypes[] = {
    {PolicyType::Float32, "float32", 32},
    {PolicyType::Float16, "float16", 16},
    {PolicyType::BFloat16, "bfloat16", 16},
    {PolicyType::Float64, "float64", 64},
    {PolicyType::TensorFloat32, "tf32", 32},
    {PolicyType::BFloat16x2, "bf16x2", 32},
    {PolicyType::BFloat16x3, "bf16x3", 32},
    {PolicyType::Float8E4M3FN, "float8_e4m3fn", 8},
    {PolicyType::Float8E5M2, "float8_e5m2", 8},
};

static const TypeFacts &factsOf(PolicyType type) {
  for (const TypeFacts &facts : kTypes)
    if (facts.type == type)
      return facts;
  llvm_unreachable("every type is in the table");
}

StringRef mpc::stringify(PolicyType type) { return factsOf(type).name; }

unsigned mpc::storageBits(PolicyType type) { return factsOf(type).bits; }

ArrayRef<PolicyType> mpc::allPolicyTypes() {
  static const PolicyType all[] = {
      PolicyType::Float32,       PolicyType::Float16,
      PolicyType::BFloat16,      PolicyType::Float64,
      PolicyType::TensorFloat32, PolicyType::BFloat16x2,
      PolicyType::BFloat16x3,    PolicyType::Float8E4M3FN,
      PolicyType::Float8E5M2};
  return all;
}

bool mpc::isComputeMode(PolicyType type) {
  return type == PolicyType::TensorFloat32 || type == PolicyType::BFloat16x2 ||
         type == PolicyType::BFloat16x3;
}

bool mpc::isFloat8(PolicyType type) {
  return type == PolicyType::Float8E4M3FN || type == PolicyType::Float8E5M2;
}

StringRef mpc::stringify(WeightType type) {
  switch (type) {
  case WeightType::Float32:
    return "float32";
  case WeightType::Float16:
    return "float16";
  case WeightType::BFloat16:
    return "bfloat16";
  case WeightType::Int16:
    return "int16";
  case WeightType::Int8:
    return "int8";
  case WeightType::Int4:
    return "int4";
  case WeightType::Float8:
    return "float8_e4m3fn";
  }
  llvm_unreachable("every type has a name");
}

std::optional<WeightType> mpc::parseWeightType(StringRef name) {
  std::optional<PolicyType> type = parsePolicyType(name);
  if (type == PolicyType::Float32)
    return WeightType::Float32;
  if (type == PolicyType::Float16)
    return WeightType::Float16;
  if (type == PolicyType::BFloat16)
    return WeightType::BFloat16;
  if (type == PolicyType::Float8E4M3FN)
    return WeightType::Float8;
  return StringSwitch<std::optional<WeightType>>(name)
      .Case("int16", WeightType::Int16)
      .Case("int8", WeightType::Int8)
      .Case("int4", WeightType::Int4)
      .Default(std::nullopt);
}

std::string WeightFormat::describe() const {
  std::string text = stringify(type).str();
  if (isScaled() && type != WeightType::Int4)
    text += ", one scale per column";
  if (type == WeightType::Int4)
    text += ", groups of " + std::to_string(group);
  if (zeroPoint)
    text += ", zero points";
  if (isScaled() && !clip)
    text += ", not clipped";
  return text;
}

std::optional<PolicyType> mpc::parsePolicyType(StringRef name) {
  return StringSwitch<std::optional<PolicyType>>(name)
      .Cases({"float32", "f32", "fp32", "float"}, PolicyType::Float32)
      .Cases({"float16", "f16", "fp16", "half"}, PolicyType::Float16)
      .Cases({"bfloat16", "bf16"}, PolicyType::BFloat16)
      .Cases({"float64", "f64", "fp64", "double"}, PolicyType::Float64)
      .Cases({"tf32", "tensorfloat32"}, PolicyType::TensorFloat32)
      .Case("bf16x2", PolicyType::BFloat16x2)
      .Case("bf16x3", PolicyType::BFloat16x3)
      .Cases({"float8_e4m3fn", "f8E4M3FN", "fp8_e4m3"},
             PolicyType::Float8E4M3FN)
      .Cases({"float8_e5m2", "f8E5M2", "fp8_e5m2"}, PolicyType::Float8E5M2)
      .Default(std::nullopt);
}

StringRef mpc::stringify(PrecisionClass cls) {
  switch (cls) {
  case PrecisionClass::Low:
    return "low";
  case PrecisionClass::High:
    return "high";
  case PrecisionClass::Follow:
    return "follow";
  case PrecisionClass::Clear:
    return "clear";
  case PrecisionClass::Widest:
    return "widest";
  case PrecisionClass::HighResult:
    return "high_result";
  case PrecisionClass::Ban:
    return "ban";
  }
  return "";
}

StringRef mpc::stringify(PolicyAlgorithm algorithm) {
  switch (algorithm) {
  case PolicyAlgorithm::MinimumCut:
    return "minimum_cut";
  case PolicyAlgorithm::TorchAutocast:
    return "torch_autocast";
  case PolicyAlgorithm::TensorFlowPainting:
    return "tensorflow_painting";
  case PolicyAlgorithm::KerasLayers:
    return "keras_layers";
  }
  return "";
}

std::optional<PolicyAlgorithm> mpc::parsePolicyAlgorithm(StringRef name) {
  return StringSwitch<std::optional<PolicyAlgorithm>>(name)
      .Case("minimum_cut", PolicyAlgorithm::MinimumCut)
      .Case("torch_autocast", PolicyAlgorithm::TorchAutocast)
      .Case("tensorflow_painting", PolicyAlgorithm::TensorFlowPainting)
      .Case("keras_layers", PolicyAlgorithm::KerasLayers)
      .Default(std::nullopt);
}

std::optional<PrecisionClass> mpc::parsePrecisionClass(StringRef name) {
  return StringSwitch<std::optional<PrecisionClass>>(name)
      .Cases({"low", "allow", "lower_precision_fp"}, PrecisionClass::Low)
      .Cases({"high", "deny", "fp32"}, PrecisionClass::High)
      .Cases({"follow", "infer"}, PrecisionClass::Follow)
      .Case("clear", PrecisionClass::Clear)
      .Cases({"widest", "promote"}, PrecisionClass::Widest)
      .Cases({"high_result", "fp32_set_opt_dtype", "fp32_append_dtype"},
             PrecisionClass::HighResult)
      .Cases({"ban", "banned"}, PrecisionClass::Ban)
      .Default(std::nullopt);
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

PrecisionClass Policy::classOf(StringRef kind) const {
  if (auto it = classes.find(kind.str()); it != classes.end())
    return it->second;
  if (StringRef systemOp = systemOpOf(kind); !systemOp.empty())
    if (std::optional<PrecisionClass> cls = classOfSystemOp(systemOp))
      return *cls;
  return defaultClass;
}

std::optional<PrecisionClass>
Policy::classOfSystemOp(StringRef systemOp) const {
  auto it = systemClasses.find(systemOp.str());
  if (it == systemClasses.end())
    return std::nullopt;
  return it->second;
}

StringRef Policy::systemOpOf(StringRef kind) const {
  auto it = systemKinds.find(kind.str());
  return it == systemKinds.end() ? StringRef() : StringRef(it->second);
}
