//===- ArgumentAliases.h - results that alias arguments -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_ARGUMENTALIASES_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_ARGUMENTALIASES_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// Returns, for each result of `function`, the index of the argument that it
/// aliases (mpc.alias); -1 if it has its own buffer.
llvm::SmallVector<int64_t> aliasesOf(mlir::func::FuncOp function);

/// Prepares a function of fusions and views for in-place updates of arguments:
/// - a returned (view of a) replaced argument's old contents is copied by a
/// fusion at the start, unless it is the argument that its own result aliases;
/// - a fusion that computes an argument's new contents moves after the last
/// reader of the old ones, if nothing needs its results before.
void orderInPlaceUpdates(mlir::func::FuncOp function,
                         llvm::ArrayRef<int64_t> aliases);

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_ARGUMENTALIASES_H
