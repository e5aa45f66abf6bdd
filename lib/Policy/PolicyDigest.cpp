//===- PolicyDigest.cpp - hash of a policy --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace mpc;

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

  SHA256 hash;
  hash.update(text);
  constexpr size_t kBytes = 8;
  return toHex(ArrayRef(hash.final()).take_front(kBytes), /*LowerCase=*/true);
}
