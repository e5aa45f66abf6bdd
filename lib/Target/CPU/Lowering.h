//===- Lowering.h - kernel bodies to LLVM dialect ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CPU_LOWERING_H
#define MPC_LIB_TARGET_CPU_LOWERING_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace mpc::cpu {

/// Registers the interfaces that the conversions below look up.
void registerLoweringInterfaces(mlir::DialectRegistry &registry);

/// Lowers func, scf, memref, vector, arith and math to LLVM dialect; memrefs
/// become bare pointers.
mlir::LogicalResult lowerToLlvm(mlir::ModuleOp module);

} // namespace mpc::cpu

#endif // MPC_LIB_TARGET_CPU_LOWERING_H
