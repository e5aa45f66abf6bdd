//===- CxxIdentifiers.h - identifiers in CUDA text --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_CXXIDENTIFIERS_H
#define MPC_LIB_TARGET_CUDA_EMIT_CXXIDENTIFIERS_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mpc::cuda {

/// Converts `text` to a C++ identifier: the part after the last '/', with other
/// characters replaced by '_', never a keyword, CUDA name or prelude macro. May
/// be empty.
std::string identifierFrom(llvm::StringRef text);

/// Returns the outermost name in a location, or an empty string.
llvm::StringRef nameOf(mlir::Location location);

/// Names in use, by C++ scope. Sibling scopes may reuse a name; nested scopes
/// may not.
class NameScopes {
public:
  NameScopes() { push(); }
  void push() { scopes.emplace_back(); }
  void pop() { scopes.pop_back(); }
  /// Adds and returns `wanted` or, if taken, `wanted2` and so on.
  std::string add(llvm::StringRef wanted);
  /// Adds and returns the first unused name of i, j, k, ...
  std::string addCounter();

private:
  bool taken(llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringSet<>> scopes;
};

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_EMIT_CXXIDENTIFIERS_H
