//===- UniqueNames.h - unique name generator --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_UNIQUENAMES_H
#define MPC_DIALECT_MPC_TRANSFORMS_UNIQUENAMES_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mpc {

/// Generates unique names: the wanted one or, if taken, with `separator` and
/// the first free number from `first` on.
class UniqueNames {
public:
  explicit UniqueNames(char separator = '_', int64_t first = 1)
      : separator(separator), first(first) {}

  /// Marks `name` as taken.
  void reserve(llvm::StringRef name) { taken.insert(name); }

  std::string make(llvm::StringRef wanted) {
    std::string name = wanted.str();
    if (taken.insert(name).second)
      return name;
    // Names are never released, so all smaller numbers are taken.
    int64_t &next = numbers.try_emplace(wanted, first).first->second;
    do
      name = (wanted + llvm::Twine(separator) + llvm::Twine(next++)).str();
    while (!taken.insert(name).second);
    return name;
  }

private:
  char separator;
  int64_t first;
  llvm::StringSet<> taken;
  llvm::StringMap<int64_t> numbers;
};

} // namespace mpc

#endif // MPC_DIALECT_MPC_TRANSFORMS_UNIQUENAMES_H
