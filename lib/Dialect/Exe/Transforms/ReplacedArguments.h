//===- ReplacedArguments.h - results that replace arguments -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_REPLACEDARGUMENTS_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_REPLACEDARGUMENTS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// What lies behind reshapes.
mlir::Value reshapedFrom(mlir::Value value);

/// For each result of `function` the number of the argument that it replaces
/// (mpc.alias); -1 where it has a buffer of its own.
llvm::SmallVector<int64_t> aliasesOf(mlir::func::FuncOp function);

/// Prepares a function of fusions and views for results that overwrite
/// arguments:
/// - a returned value that is (a view of) a replaced argument's old contents is
///   copied by a fusion ahead of all others, but where it is the very argument
///   that its result replaces;
/// - a fusion that computes an argument's new contents moves behind the last
///   one that reads the old ones, where nothing needs its results before.
void orderReplacements(mlir::func::FuncOp function,
                       llvm::ArrayRef<int64_t> aliases);

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_REPLACEDARGUMENTS_H
