//===- NameFilter.cpp - parameters by name or regex -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NameFilter.h"

#include "llvm/ADT/STLExtras.h"

#include <re2/re2.h>

using namespace mpc;

llvm::Expected<NameFilter>
NameFilter::create(llvm::ArrayRef<std::string> texts) {
  NameFilter filter;
  for (const std::string &text : texts) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    auto regex = std::make_shared<re2::RE2>(text, options);
    if (!regex->ok())
      return llvm::createStringError(
          "'" + text + "' is not a regular expression: " + regex->error());
    filter.patterns.push_back({text, std::move(regex)});
  }
  return filter;
}

std::optional<llvm::StringRef> NameFilter::match(llvm::StringRef name) {
  std::optional<llvm::StringRef> found;
  for (Pattern &pattern : patterns) {
    if (pattern.text != name &&
        !re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()),
                             *pattern.regex))
      continue;
    pattern.used = true;
    if (!found)
      found = pattern.text;
  }
  return found;
}

bool NameFilter::isListed(llvm::StringRef name) const {
  return llvm::any_of(
      patterns, [&](const Pattern &pattern) { return pattern.text == name; });
}

llvm::StringRef NameFilter::unmatched() const {
  for (const Pattern &pattern : patterns)
    if (!pattern.used)
      return pattern.text;
  return {};
}
