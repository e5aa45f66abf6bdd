//===- Buffers.h - what verifiers ask about buffers -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_IR_BUFFERS_H
#define MPC_LIB_DIALECT_EXE_IR_BUFFERS_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc::exe {

/// What the names in a program's steps stand for.
class ProgramNames {
public:
  explicit ProgramNames(ProgramOp program);

  /// The argument, result or constant that `buffer` names; null for other
  /// buffers.
  mlir::Operation *bufferOf(mlir::Attribute buffer) const;

  /// The bytes that a buffer has, or nullopt where it names nothing of the
  /// program.
  std::optional<int64_t> bytesOf(mlir::Attribute buffer) const;

  /// The kernel that a launch names, where it is a function on tensors; null
  /// where it is not there or already code.
  mlir::func::FuncOp kernelOf(LaunchOp launch) const;

  ProgramOp getProgram() const { return program; }

private:
  ProgramOp program;
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> buffers;
  llvm::DenseMap<mlir::StringAttr, mlir::func::FuncOp> kernels;
};

/// That every buffer exists, outputs may be written, and no output overlaps
/// another buffer of the step, but an input that it may share.
mlir::LogicalResult verifyBuffers(StepOpInterface step,
                                  const ProgramNames &names);

/// The constraints of a product by the library.
mlir::LogicalResult verifyGemm(GemmOp gemm, const ProgramNames &names);

/// The constraints of a message among ranks.
mlir::LogicalResult verifyMessage(CollectiveOp op, const ProgramNames &names);

} // namespace mpc::exe

#endif // MPC_LIB_DIALECT_EXE_IR_BUFFERS_H
