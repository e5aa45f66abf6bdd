//===- ProgramSymbols.h - buffer lookup for verifiers -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_IR_PROGRAMSYMBOLS_H
#define MPC_LIB_DIALECT_EXE_IR_PROGRAMSYMBOLS_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc::exe {

/// Symbol table of a program's steps.
class ProgramSymbols {
public:
  explicit ProgramSymbols(ProgramOp program);

  /// Returns the argument, result or constant that `buffer` names; null for
  /// other buffers.
  mlir::Operation *bufferOf(mlir::Attribute buffer) const;

  /// Returns the size of a buffer in bytes, or nullopt if it names nothing in
  /// the program.
  std::optional<int64_t> bytesOf(mlir::Attribute buffer) const;

  /// Returns the kernel of a launch if it is a function on tensors; null if it
  /// is missing or already lowered.
  mlir::func::FuncOp kernelOf(LaunchOp launch) const;

  ProgramOp getProgram() const { return program; }

private:
  ProgramOp program;
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> buffers;
  llvm::DenseMap<mlir::StringAttr, mlir::func::FuncOp> kernels;
};

/// Verifies that every buffer exists, outputs are writable, and no output
/// overlaps another buffer of the step, except an input that it may share.
mlir::LogicalResult verifyBuffers(StepOpInterface step,
                                  const ProgramSymbols &names);

/// Verifies a library GEMM.
mlir::LogicalResult verifyGemm(GemmOp gemm, const ProgramSymbols &names);

/// Verifies a collective.
mlir::LogicalResult verifyMessage(CollectiveOp op, const ProgramSymbols &names);

} // namespace mpc::exe

#endif // MPC_LIB_DIALECT_EXE_IR_PROGRAMSYMBOLS_H
