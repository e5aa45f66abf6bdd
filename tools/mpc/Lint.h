//===- Lint.h - numeric lint of the driver ----------------------*- C++ -*-===//
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

/// Returns the policy of a compile, with the flags' overrides, parsed as by the
/// pass.
Result<Policy> loadPolicy(const CompileOptions &options);

/// Runs stage precision on a module after stage simplify, and the lint on the
/// result: `[{"code","op","location","value","text","fix"}]`.
Result<Json> assignAndLint(Compiler &compiler, mlir::ModuleOp module,
                           const CompileOptions &options);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_LINT_H
