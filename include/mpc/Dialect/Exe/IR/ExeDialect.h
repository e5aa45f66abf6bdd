//===- ExeDialect.h - the exe dialect ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect class and its attributes. Ops: ExeOps.h.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_EXEDIALECT_H
#define MPC_DIALECT_EXE_IR_EXEDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Target/TargetInfo.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h.inc"

#include "mpc/Dialect/Exe/IR/ExeEnums.h.inc"

namespace mpc {
struct Collective;
struct GemmProblem;
} // namespace mpc

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Exe/IR/ExeAttributes.h.inc"

namespace mpc::exe {

/// Kernel attribute with its schedule (tiling). Each target family has its own
/// form; without one the family's cost model chooses.
inline constexpr llvm::StringLiteral kScheduleAttr = "mpc.schedule";

/// Returns the target of `op` or its enclosing module; cpu:avx512 by default.
TargetInfo targetOf(mlir::Operation *op);

/// Returns the target named by a pass's `option`, or that of `op` if empty.
/// Emits an error at `op` for an unknown target.
mlir::FailureOr<TargetInfo> targetOf(mlir::Operation *op,
                                     llvm::StringRef option);

/// Sets the target of `module`.
void setTarget(mlir::Operation *module, const TargetInfo &target);

} // namespace mpc::exe

#endif // MPC_DIALECT_EXE_IR_EXEDIALECT_H
