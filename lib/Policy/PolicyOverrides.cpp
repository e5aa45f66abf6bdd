//===- PolicyOverrides.cpp - overrides of a policy ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing of `KEY=TYPE` overrides and their precedence.
//
//===----------------------------------------------------------------------===//

#include "PolicyReader.h"

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/Twine.h"

#include <re2/re2.h>

using namespace llvm;
using namespace mpc;

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

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
