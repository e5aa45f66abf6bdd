//===- Lint.h - the numeric lint in the driver ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_LINT_H
#define MPC_TOOLS_MPC_LINT_H

#include "Options.h"

#include "JIT/Compiler.h"
#include "mpc/Policy/Policy.h"

namespace mpc::tool {

/// The policy that a compile applies, with the flags' overrides; the same
/// reader as the pass's.
Result<Policy> loadPolicy(const CompileOptions &options);

/// Runs the stage precision on a module that stands after simplify, and the
/// lint on what it did: `[{"code","op","location","value","text","fix"}]`.
Result<Json> assignAndLint(Compiler &compiler, mlir::ModuleOp module,
                           const CompileOptions &options);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_LINT_H
