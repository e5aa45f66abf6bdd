//===- FusionPasses.h - what the fuser's passes share -----------*- C++ -*-===//
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

/// What one of the passes works on.
struct FusionScope {
  /// Null where there is nothing to do: the function is declared only, or holds
  /// fusions already.
  mlir::Block *block = nullptr;
  TargetInfo target;
};

/// The scope of `pass` in `function`, for the module's target or, where one is
/// given, the one named `target`; a diagnostic where the function has several
/// blocks or the target is unknown.
mlir::FailureOr<FusionScope> scopeOf(mlir::func::FuncOp function,
                                     const mlir::Pass &pass,
                                     const std::string &target = "");

/// Erases what nothing reads.
void eraseDeadOps(mlir::Block &block);

/// The model's name for an op, or its mnemonic, as part of an identifier.
std::string identifierOf(mlir::Operation *op);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_FUSIONPASSES_H
