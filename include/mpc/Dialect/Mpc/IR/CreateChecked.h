//===- CreateChecked.h - op creation with diagnostics -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_CREATECHECKED_H
#define MPC_DIALECT_MPC_IR_CREATECHECKED_H

#include "mlir/IR/Builders.h"

namespace mpc {

/// Infers the result types of the op `name`; emits errors at `loc`.
mlir::LogicalResult
inferResultTypes(mlir::Location loc, llvm::StringRef name,
                 mlir::ValueRange operands,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes,
                 llvm::SmallVectorImpl<mlir::Type> &types);

/// Creates an op with given result types (for ops without inference, or that
/// widen); runs its verifier, and erases the op on failure.
mlir::FailureOr<mlir::Operation *>
createChecked(mlir::OpBuilder &builder, mlir::Location loc,
              llvm::StringRef name, mlir::TypeRange resultTypes,
              mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// Creates `OpTy`, which must infer its result types, after checking the
/// inference, so that a wrong shape is a diagnostic at `loc` instead of an
/// abort.
template <typename OpTy>
mlir::FailureOr<OpTy>
createChecked(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes = {}) {
  llvm::SmallVector<mlir::Type> types;
  if (mlir::failed(inferResultTypes(loc, OpTy::getOperationName(), operands,
                                    attributes, types)))
    return mlir::failure();
  mlir::FailureOr<mlir::Operation *> op = createChecked(
      builder, loc, OpTy::getOperationName(), types, operands, attributes);
  if (mlir::failed(op))
    return mlir::failure();
  return mlir::cast<OpTy>(*op);
}

} // namespace mpc

#endif // MPC_DIALECT_MPC_IR_CREATECHECKED_H
