//===- PlannedMemory.h - contents of a program's buffers --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_TRANSLATION_PLANNEDMEMORY_H
#define MPC_LIB_ANALYSIS_TRANSLATION_PLANNEDMEMORY_H

#include "SymbolicTensors.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"

namespace mpc::translation {

/// What a range of a buffer holds: elements of a tensor, from one on.
struct Content {
  /// Bytes from the buffer's start.
  int64_t offset = 0, bytes = 0;
  TensorId tensor = 0;
  int64_t skipped = 0;
  /// Launch that wrote it and the result that it is; -1 for arguments and
  /// constants.
  int launch = -1;
  unsigned result = 0;
};

/// Bytes of an element in a buffer: one for a boolean.
int64_t elementBytes(mlir::RankedTensorType type);

/// Symbolic memory of a program: the contents of its arena, arguments, results
/// and constants. A write ends what it overlaps, so a stale or undefined
/// operand becomes an expression that no graph has.
class PlannedMemory {
public:
  PlannedMemory(SymbolicTensors &tensors, exe::ProgramOp program);

  struct Read {
    TensorId tensor = 0;
    /// The parts of contents that were read, in order.
    llvm::SmallVector<Content, 1> contents;
  };
  /// The contents of a buffer as a tensor.
  Read read(mlir::Attribute buffer, mlir::RankedTensorType type);
  void write(mlir::Attribute buffer, const Content &content);

private:
  struct Range {
    std::string buffer;
    int64_t offset = 0;
    /// -1: the whole buffer.
    int64_t bytes = -1;
  };
  Range rangeOf(mlir::Attribute buffer) const;

  SymbolicTensors *tensors;
  /// Results that share an argument's memory.
  llvm::StringMap<std::string> aliases;
  llvm::StringMap<llvm::SmallVector<Content, 4>> contents;
  int undefined = 0;
};

} // namespace mpc::translation

#endif // MPC_LIB_ANALYSIS_TRANSLATION_PLANNEDMEMORY_H
