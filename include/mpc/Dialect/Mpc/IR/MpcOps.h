//===- MpcOps.h - the ops of mpc --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPS_H
#define MPC_DIALECT_MPC_IR_MPCOPS_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/Builders.h"

namespace mpc {

/// Multiply-adds of a recurrent op per gate; flops are twice this times the
/// number of gates.
template <typename OpTy> int64_t recurrentCost(OpTy op) {
  llvm::ArrayRef<int64_t> input = op.getInput().getType().getShape();
  llvm::ArrayRef<int64_t> recurrence = op.getRecurrence().getType().getShape();
  int64_t hidden = recurrence[2];
  return productOf(
      {recurrence[0], input[0], input[1], hidden, input[2] + hidden});
}

/// Parses and prints `keyword` of an enum attribute in an assembly format,
/// without the leading space of the attribute's own printer.
template <typename EnumAttrT>
mlir::ParseResult parseEnumKeyword(mlir::OpAsmParser &parser, EnumAttrT &attr) {
  using Enum = decltype(attr.getValue());
  llvm::StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return mlir::failure();
  std::optional<Enum> value = symbolizeEnum<Enum>(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown keyword '" << keyword << "'";
  attr = EnumAttrT::get(parser.getContext(), *value);
  return mlir::success();
}
template <typename EnumAttrT>
void printEnumKeyword(mlir::OpAsmPrinter &printer, mlir::Operation *,
                      EnumAttrT attr) {
  printer << stringifyEnum(attr.getValue());
}

} // namespace mpc

#define GET_OP_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcOps.h.inc"

namespace mpc {

/// Creates `OpTy` after checking type inference, so that a wrong shape is a
/// diagnostic at `loc` instead of an abort. Runs the op's verifier as well;
/// erases the op on failure. `OpTy` must infer its result types.
template <typename OpTy>
mlir::FailureOr<OpTy>
createChecked(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// Overload with given result types (for ops without inference, or that widen).
mlir::FailureOr<mlir::Operation *>
createChecked(mlir::OpBuilder &builder, mlir::Location loc,
              llvm::StringRef name, mlir::TypeRange resultTypes,
              mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// Infers the result types of the op `name`; emits errors at `loc`.
mlir::LogicalResult
inferResultTypes(mlir::Location loc, llvm::StringRef name,
                 mlir::ValueRange operands,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes,
                 llvm::SmallVectorImpl<mlir::Type> &types);

template <typename OpTy>
mlir::FailureOr<OpTy>
createChecked(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::ValueRange operands,
              llvm::ArrayRef<mlir::NamedAttribute> attributes) {
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

#endif // MPC_DIALECT_MPC_IR_MPCOPS_H
