//===- ExeOps.h - the ops of exe --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_EXEOPS_H
#define MPC_DIALECT_EXE_IR_EXEOPS_H

#include "mpc/Dialect/Exe/IR/ExeDialect.h"

#include "mlir/IR/Builders.h"

namespace mpc::exe {
class ArgumentOp;
class CollectiveOp;
class ConstantOp;
class GemmOp;
class LaunchOp;
class ResultOp;
} // namespace mpc::exe

#include "mpc/Dialect/Exe/IR/ExeInterfaces.h.inc"

#define GET_OP_CLASSES
#include "mpc/Dialect/Exe/IR/ExeOps.h.inc"

#endif // MPC_DIALECT_EXE_IR_EXEOPS_H
