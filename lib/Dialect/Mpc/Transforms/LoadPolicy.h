//===- LoadPolicy.h - policy from pass options ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_LOADPOLICY_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_LOADPOLICY_H

#include "mpc/Policy/Policy.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <string>

namespace mpc {

/// Loads the policy `name` (built-in or a file) and adds the overrides `sets`
/// ("KEY=TYPE") of a pass's options. Emits an error without location on
/// failure.
template <typename Sets>
mlir::LogicalResult loadPolicy(const std::string &name, const Sets &sets,
                               mlir::MLIRContext *context, Policy &policy) {
  auto fail = [&](llvm::Error error) -> mlir::LogicalResult {
    return mlir::emitError(mlir::UnknownLoc::get(context),
                           llvm::toString(std::move(error)));
  };
  llvm::Expected<Policy> loaded = Policy::load(name);
  if (!loaded)
    return fail(loaded.takeError());
  for (const std::string &set : sets)
    if (llvm::Error error = loaded->addOverride(set))
      return fail(std::move(error));
  policy = std::move(*loaded);
  return mlir::success();
}

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_LOADPOLICY_H
