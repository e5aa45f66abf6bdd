//===- UniqueNames.h - names that nothing else has --------------*- C++ -*-===//
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

/// Hands out names: the wanted one, or behind it and `separator` the first
/// number from `first` on that makes it a new one.
class UniqueNames {
public:
  explicit UniqueNames(char separator = '_', int64_t first = 1)
      : separator(separator), first(first) {}

  /// Nothing else gets `name` from now on.
  void reserve(llvm::StringRef name) { taken.insert(name); }

  std::string make(llvm::StringRef wanted) {
    std::string name = wanted.str();
    if (taken.insert(name).second)
      return name;
    // All numbers before the next one are taken: no name is given back.
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
