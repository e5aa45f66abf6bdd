//===- Shapes.h - extents of tensors ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_SHAPES_H
#define MPC_DIALECT_MPC_IR_SHAPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace mpc {

/// The extents of a tensor value.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
}

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_SHAPES_H
