//===- Policy.cpp - precision policies ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of types, classes and algorithms, and lookups in a policy.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <re2/re2.h>

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

//===----------------------------------------------------------------------===//
// Layers
//
// The map from layer paths to policies, resolved like Keras' DTypePolicyMap,
// and the policies of Keras' names.
//===----------------------------------------------------------------------===//

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

Expected<Policy> Policy::loadKeras(StringRef name) {
  StringRef typeName = name;
  bool mixed = typeName.consume_front("mixed_");
  // Keras has no short names.
  auto type = StringSwitch<std::optional<PolicyType>>(typeName)
                  .Case("float32", PolicyType::Float32)
                  .Case("float16", PolicyType::Float16)
                  .Case("bfloat16", PolicyType::BFloat16)
                  .Case("float64", PolicyType::Float64)
                  .Default(std::nullopt);
  if (type && mixed && storageBits(*type) != 16)
    type = std::nullopt;
  if (!type)
    return makeError("unknown Keras policy '" + name +
                     "'; use float32, float16, bfloat16, float64, "
                     "mixed_float16 or mixed_bfloat16");
  Policy policy;
  policy.name = name.str();
  policy.algorithm = PolicyAlgorithm::KerasLayers;
  policy.compute = policy.store = *type;
  policy.variable = mixed ? PolicyType::Float32 : *type;
  policy.defaultClass = PrecisionClass::Low;
  return policy;
}

Error Policy::addLayerPolicy(StringRef pattern, StringRef policyName,
                             bool autocast) {
  if (pattern.empty())
    return makeError("a layer's path or regular expression is empty");
  if (algorithm != PolicyAlgorithm::KerasLayers &&
      algorithm != PolicyAlgorithm::MinimumCut)
    return makeError(
        "algorithm " + stringify(algorithm) +
        " does not support layers; use keras_layers or minimum_cut");
  for (const LayerPolicy &other : layers)
    if (other.pattern == pattern)
      return makeError("layer '" + pattern + "' already has the policy '" +
                       other.policy->getName() + "'");
  bool isKeras = algorithm == PolicyAlgorithm::KerasLayers;
  Expected<Policy> loaded =
      isKeras ? loadKeras(policyName) : loadBuiltin(policyName);
  if (!loaded)
    return loaded.takeError();
  if (!isKeras && loaded->algorithm != algorithm)
    return makeError("policy '" + policyName + "' uses the algorithm " +
                     stringify(loaded->algorithm) +
                     "; the policy of a layer must use " +
                     stringify(algorithm));
  loaded->autocast = autocast;
  re2::RE2::Options options;
  options.set_log_errors(false);
  layers.push_back({pattern.str(),
                    std::make_shared<re2::RE2>(pattern.str(), options),
                    std::make_shared<const Policy>(std::move(*loaded))});
  return Error::success();
}

Expected<const Policy *> Policy::policyOfLayer(StringRef layer) const {
  for (const LayerPolicy &entry : layers)
    if (entry.pattern == layer)
      return entry.policy.get();
  const LayerPolicy *match = nullptr;
  for (const LayerPolicy &entry : layers) {
    if (!entry.regex->ok())
      return makeError(
          "layer '" + entry.pattern +
          "' is not a valid regular expression: " + entry.regex->error());
    if (!re2::RE2::FullMatch(re2::StringPiece(layer.data(), layer.size()),
                             *entry.regex))
      continue;
    if (match)
      return makeError("layers '" + match->pattern + "' and '" + entry.pattern +
                       "' both match layer '" + layer +
                       "'; make the regular expressions disjoint or name the "
                       "layer exactly");
    match = &entry;
  }
  return match ? match->policy.get() : this;
}

//===----------------------------------------------------------------------===//
// Overrides
//
// Parsing of `KEY=TYPE` overrides and their precedence.
//===----------------------------------------------------------------------===//

Error Policy::addOverride(StringRef text, PolicyOverride::Source source) {
  PolicyOverride entry;
  entry.source = source;
  entry.text = text.str();
  // The pattern may contain '='; the type cannot.
  auto [left, typeName] = text.rsplit('=');
  entry.isAboutBackward = left.consume_front(Policy::kBackward);
  entry.isAboutInputs = left.consume_front("inputs:");
  auto [keyName, pattern] = left.split(':');
  // A name needs no key: inputs:NAME.
  bool hasKey = keyName == "op" || keyName == "layer" || keyName == "name";
  if ((entry.isAboutInputs || entry.isAboutBackward) &&
      !(hasKey && !pattern.empty())) {
    keyName = "name";
    pattern = left;
  }
  if (typeName.empty() || pattern.empty())
    return makeError(
        "override '" + text +
        "' is not of the form op:KIND=TYPE, layer:PATH=TYPE, name:NAME=TYPE, "
        "inputs:NAME=float32 or backward:NAME=TYPE");
  std::optional<PolicyType> type = parsePolicyType(typeName);
  if (!type)
    return makeError("override '" + text + "' names the unknown type '" +
                     typeName + "'; use " + joinTypes(allPolicyTypes()));
  entry.type = *type;
  entry.pattern = pattern.str();
  if (keyName == "op") {
    entry.key = PolicyOverride::Key::Kind;
  } else if (keyName == "layer") {
    entry.key = PolicyOverride::Key::Layer;
  } else if (keyName == "name") {
    entry.key = PolicyOverride::Key::Name;
  } else {
    return makeError("override '" + text + "' has the unknown key '" + keyName +
                     "'; use op, layer, name, inputs or backward");
  }
  if (entry.isAboutInputs && entry.type != PolicyType::Float32)
    return makeError("override '" + text + "' sets inputs to " +
                     stringify(entry.type) +
                     ", but inputs can only be kept in float32; for another "
                     "type, override the op");
  if (entry.key == PolicyOverride::Key::Layer) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    entry.regex = std::make_shared<re2::RE2>(entry.pattern, options);
    if (!entry.regex->ok())
      return makeError(
          "override '" + text +
          "' contains an invalid regular expression: " + entry.regex->error());
  }
  for (const PolicyOverride &other : overrides)
    if (other.source == source && other.key == entry.key &&
        other.isAboutInputs == entry.isAboutInputs &&
        other.isAboutBackward == entry.isAboutBackward &&
        other.pattern == entry.pattern) {
      if (other.type == entry.type)
        return Error::success();
      return makeError("overrides '" + other.text + "' and '" + text +
                       "' set different types for one key; keep one of them");
    }
  overrides.push_back(std::move(entry));
  return Error::success();
}

/// Specificity of the match of an override's key with an op; 0: no match.
static int rankOfKey(const PolicyOverride &entry, StringRef kind,
                     StringRef layer, ArrayRef<StringRef> names) {
  switch (entry.key) {
  case PolicyOverride::Key::Name:
    for (StringRef name : names)
      if (name == entry.pattern)
        return 4;
    return 0;
  case PolicyOverride::Key::Layer:
    if (layer.empty())
      return 0;
    if (layer == entry.pattern)
      return 3;
    return re2::RE2::FullMatch(re2::StringPiece(layer.data(), layer.size()),
                               *entry.regex)
               ? 2
               : 0;
  case PolicyOverride::Key::Kind:
    return kind == entry.pattern ? 1 : 0;
  }
  return 0;
}

/// Specificity of the match between an override and an op: twice that of its
/// key, plus one for an override of this pass only; 0 if it does not match.
static int rankOf(const PolicyOverride &entry, StringRef kind, StringRef layer,
                  ArrayRef<StringRef> names, bool isBackward) {
  if (entry.isAboutBackward && !isBackward)
    return 0;
  int rank = rankOfKey(entry, kind, layer, names);
  return rank ? 2 * rank + entry.isAboutBackward : 0;
}

bool PolicyOverride::fits(StringRef kind, StringRef layer,
                          ArrayRef<StringRef> names, bool isBackward) const {
  return rankOf(*this, kind, layer, names, isBackward) != 0;
}

Expected<const PolicyOverride *> Policy::findOverride(StringRef kind,
                                                      StringRef layer,
                                                      ArrayRef<StringRef> names,
                                                      bool isBackward) const {
  for (PolicyOverride::Source source :
       {PolicyOverride::Source::CommandLine, PolicyOverride::Source::File}) {
    const PolicyOverride *best = nullptr;
    // For overrides of all passes, and of the backward one.
    const PolicyOverride *regexMatch[2] = {}, *otherMatch[2] = {};
    bool exactLayer[2] = {};
    int bestRank = 0;
    for (const PolicyOverride &entry : overrides) {
      if (entry.source != source || entry.isAboutInputs)
        continue;
      int rank = rankOf(entry, kind, layer, names, isBackward);
      if (rank == 0)
        continue;
      bool isApart = entry.isAboutBackward;
      exactLayer[isApart] |= rank / 2 == 3;
      if (rank / 2 == 2)
        (regexMatch[isApart] ? otherMatch : regexMatch)[isApart] = &entry;
      if (rank / 2 == 4 && rank == bestRank && best->type != entry.type)
        return makeError("overrides '" + best->text + "' and '" + entry.text +
                         "' both match the op '" +
                         (names.empty() ? kind : names.front()) +
                         "'; keep one of them");
      if (rank > bestRank) {
        best = &entry;
        bestRank = rank;
      }
    }
    // Two regexes are an error even if they agree or a name takes precedence,
    // so that their meaning does not depend on a model's ops. A layer that is
    // named exactly is not looked up in regexes.
    for (int apart : {0, 1})
      if (otherMatch[apart] && !exactLayer[apart])
        return makeError("overrides '" + regexMatch[apart]->text + "' and '" +
                         otherMatch[apart]->text + "' both match layer '" +
                         layer +
                         "'; make the regular expressions disjoint or name the "
                         "layer exactly");
    if (best)
      return best;
  }
  return nullptr;
}

const PolicyOverride *Policy::findInputs(StringRef kind, StringRef layer,
                                         ArrayRef<StringRef> names,
                                         bool isBackward) const {
  const PolicyOverride *best = nullptr;
  // They all have the same effect; messages name the most specific one.
  for (const PolicyOverride &entry : overrides)
    if (entry.isAboutInputs && entry.fits(kind, layer, names, isBackward) &&
        (!best || rankOf(entry, kind, layer, names, isBackward) >
                      rankOf(*best, kind, layer, names, isBackward)))
      best = &entry;
  return best;
}

//===----------------------------------------------------------------------===//
// Digest
//===----------------------------------------------------------------------===//

std::string Policy::digest() const {
  std::string text;
  raw_string_ostream out(text);
  // Length prefixes separate adjacent strings.
  auto put = [&](StringRef part) { out << part.size() << ':' << part; };
  auto putSorted = [&](std::vector<std::string> parts) {
    llvm::sort(parts);
    for (const std::string &part : parts)
      put(part);
    out << ';';
  };
  for (PolicyType type : {compute, store, accumulate, variable, output})
    put(stringify(type));
  put(weights.describe());
  for (auto &[name, format] : namedWeights) {
    put(name);
    put(format.describe());
  }
  put(operands.canonical());
  put(cache ? stringify(*cache) : "");
  if (gradientWire)
    put(("gradient_wire " + stringify(*gradientWire)).str());
  put(stringify(algorithm));
  put(stringify(defaultClass));
  out << autocast;
  for (auto &[kind, cls] : classes) {
    put(kind);
    put(stringify(cls));
  }
  out << ';';
  for (auto &[list, ops] : systemLists) {
    put(list);
    putSorted(ops);
  }
  out << ';';
  for (auto &[op, cls] : systemClasses) {
    put(op);
    put(stringify(cls));
  }
  out << ';';
  for (auto &[kind, op] : systemKinds) {
    put(kind);
    put(op);
  }
  out << ';';
  std::vector<std::string> parts;
  parts.reserve(std::max(overrides.size(), layers.size()));
  for (const PolicyOverride &entry : overrides)
    parts.push_back((Twine(int(entry.source)) + "," + Twine(int(entry.key)) +
                     (entry.isAboutBackward ? "b" : "") +
                     (entry.isAboutInputs ? "i," : ",") +
                     stringify(entry.type) + "," + entry.pattern)
                        .str());
  putSorted(std::move(parts));
  parts.clear();
  for (const LayerPolicy &layer : layers)
    parts.push_back(layer.policy->digest() + "," + layer.pattern);
  putSorted(std::move(parts));

  for (auto &[name, type] : products) {
    put(name);
    put(stringify(type));
  }
  out << ';';
  for (auto &[name, narrow] : values) {
    put(name);
    out << narrow;
  }
  out << ';';
  for (auto &[name, range] : ranges) {
    put(name);
    out << format("%.17g", range.largest);
  }
  // Only clipping uses them.
  if (narrowsWeights())
    for (auto &[name, squares] : moments) {
      put(name);
      for (float square : squares)
        out << format("%.9g,", square);
    }

  if (reproducible)
    put("reproducible");

  SHA256 hash;
  hash.update(text);
  constexpr size_t kBytes = 8;
  return toHex(ArrayRef(hash.final()).take_front(kBytes), /*LowerCase=*/true);
}
