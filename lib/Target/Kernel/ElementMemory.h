//===- ElementMemory.h - memory layout of tensors ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_ELEMENTMEMORY_H
#define MPC_LIB_TARGET_KERNEL_ELEMENTMEMORY_H

#include "mlir/IR/BuiltinTypes.h"

namespace mpc {

/// Element type in memory: i8 for i1, signless for unsigned integers, else
/// `type`.
mlir::Type memoryElementType(mlir::Type type);

/// The memref of a tensor of type `type`: contiguous, row-major, with extents
/// of 0 as 1.
mlir::MemRefType memoryType(mlir::Type type);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_ELEMENTMEMORY_H
