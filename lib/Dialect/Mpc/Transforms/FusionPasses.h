//===- FusionPasses.h - shared code of the fusion passes --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONPASSES_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONPASSES_H

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Target/TargetInfo.h"

#include <string>

namespace mpc {

/// Block and target that a fusion pass works on.
struct FusionScope {
  /// Null if there is nothing to do: a declaration, or a function that already
  /// contains fusions.
  mlir::Block *block = nullptr;
  TargetInfo target;
};

/// Returns the scope of `pass` in `function`, for `target` if given, else the
/// module's target. Emits an error for several blocks or an unknown target.
mlir::FailureOr<FusionScope> scopeOf(mlir::func::FuncOp function,
                                     const mlir::Pass &pass,
                                     const std::string &target = "");

/// Erases ops without uses.
void eraseDeadOps(mlir::Block &block);

/// Returns the model's name of an op, or its mnemonic, as an identifier.
std::string identifierOf(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONPASSES_H
