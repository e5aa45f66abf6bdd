//===- InitAllDialects.h - registers all dialects ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_INITALLDIALECTS_H
#define MPC_INITALLDIALECTS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mpc {

/// Registers mpc, exe, func and the upstream dialects that kernel bodies use.
void registerAllDialects(mlir::DialectRegistry &registry);

} // namespace mpc

#endif // MPC_INITALLDIALECTS_H
