//===- AssignLayout.h - the rewrites of mpc-assign-layout -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Patterns that move transposes and reshapes behind the ops that read them,
/// and merge those that meet. Each moves data movement towards the function's
/// end or removes it, so the set terminates.
void populateSinkPatterns(mlir::RewritePatternSet &patterns);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_ASSIGNLAYOUT_H
