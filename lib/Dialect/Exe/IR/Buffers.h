//===- Buffers.h - what verifiers ask about buffers -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_IR_BUFFERS_H
#define MPC_LIB_DIALECT_EXE_IR_BUFFERS_H

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include <optional>

namespace mpc::exe {

/// The bytes that a buffer has, or nullopt where it names nothing of the
/// program.
std::optional<int64_t> bufferBytes(ProgramOp program, mlir::Attribute buffer);

/// That every buffer exists, outputs may be written, and no output overlaps
/// another buffer of the step, but an input that it may share.
mlir::LogicalResult verifyBuffers(StepOpInterface step);

} // namespace mpc::exe

#endif // MPC_LIB_DIALECT_EXE_IR_BUFFERS_H
