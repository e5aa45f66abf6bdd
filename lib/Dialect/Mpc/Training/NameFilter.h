//===- NameFilter.h - parameters by name or regex ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRAINING_NAMEFILTER_H
#define MPC_LIB_DIALECT_MPC_TRAINING_NAMEFILTER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace mpc {

/// A list of names and full-match regular expressions (RE2). Records which of
/// them never matched.
class NameFilter {
public:
  /// Fails if a pattern is neither a name nor a regular expression.
  static llvm::Expected<NameFilter> create(llvm::ArrayRef<std::string> texts);

  bool empty() const { return patterns.empty(); }
  bool matches(llvm::StringRef name) { return match(name).has_value(); }
  /// Returns the text of the first matching pattern.
  std::optional<llvm::StringRef> match(llvm::StringRef name);
  /// Returns true if the list contains the name itself, not a pattern.
  bool isListed(llvm::StringRef name) const;
  /// Returns the first pattern without a match so far, or an empty string.
  llvm::StringRef unmatched() const;

private:
  struct Pattern {
    std::string text;
    std::shared_ptr<re2::RE2> regex;
    bool used = false;
  };
  std::vector<Pattern> patterns;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRAINING_NAMEFILTER_H
