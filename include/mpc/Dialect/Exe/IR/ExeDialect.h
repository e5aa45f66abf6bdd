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

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Exe/IR/ExeAttributes.h.inc"

namespace mpc::exe {

/// The attribute of a planned kernel that says how its code is cut. Each family
/// of targets has a form of its own; a kernel without one gets what the
/// family's cost model chooses.
inline constexpr llvm::StringLiteral kScheduleAttr = "mpc.schedule";

/// The target that the module around `op`, or `op` itself, is compiled for;
/// cpu:avx512 where none says it.
TargetInfo targetOf(mlir::Operation *op);

/// The target that a pass's `option` names instead; where it is empty, that of
/// `op`. A diagnostic at `op` where it is unknown.
mlir::FailureOr<TargetInfo> targetOf(mlir::Operation *op,
                                     llvm::StringRef option);

/// Says it of `module`.
void setTarget(mlir::Operation *module, const TargetInfo &target);

} // namespace mpc::exe

#endif // MPC_DIALECT_EXE_IR_EXEDIALECT_H
