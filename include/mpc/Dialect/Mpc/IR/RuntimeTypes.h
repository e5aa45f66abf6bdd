//===- RuntimeTypes.h - types of MLIR and of the runtime --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_RUNTIMETYPES_H
#define MPC_DIALECT_MPC_IR_RUNTIMETYPES_H

#include "mpc/Runtime/TensorType.h"

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace mpc {

/// Returns the runtime element type of `element`, or nullopt.
std::optional<ElementType> runtimeElement(mlir::Type element);

/// Returns the runtime type of a tensor type with a supported element type.
TensorType runtimeType(mlir::RankedTensorType type);

/// Returns the MLIR type of a buffer.
mlir::RankedTensorType compilerType(const TensorType &type,
                                    mlir::MLIRContext &context);

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_RUNTIMETYPES_H
