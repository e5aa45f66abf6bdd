//===- PolicyLayers.cpp - policies per layer ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The map from layer paths to policies, resolved like Keras' DTypePolicyMap,
// and the policies of Keras' names.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <re2/re2.h>

using namespace llvm;
using namespace mpc;

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
