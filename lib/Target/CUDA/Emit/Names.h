//===- Names.h - identifiers of a kernel's text -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_EMIT_NAMES_H
#define MPC_LIB_TARGET_CUDA_EMIT_NAMES_H

#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace mpc {

/// `text` as a C++ identifier: the part behind the last '/', other characters
/// as '_', never a keyword or a name that CUDA or the prelude's macros take.
/// Empty where nothing is left.
std::string identifierFrom(llvm::StringRef text);

/// The name that a location carries, the outermost first; empty where there is
/// none.
llvm::StringRef nameOf(mlir::Location location);

/// Names in use, by the scopes of a C++ function. A name may come again in a
/// scope beside, not in one inside.
class NameScopes {
public:
  NameScopes() { push(); }
  void push() { scopes.emplace_back(); }
  void pop() { scopes.pop_back(); }
  /// `wanted` or, where it is taken, `wanted2` and so on.
  std::string add(llvm::StringRef wanted);
  /// The first of i, j, k, ... that is free.
  std::string addCounter();

private:
  bool taken(llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringSet<>> scopes;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_EMIT_NAMES_H
