//===- MpcAssembly.h - for the generated op definitions ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Custom directives of assembly formats, and the registration of op families.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_IR_MPCASSEMBLY_H
#define MPC_LIB_DIALECT_MPC_IR_MPCASSEMBLY_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

namespace mpc {

template <typename... Ops> void registerOps(MpcDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}

/// Parses and prints `keyword` of an enum attribute, without the leading space
/// of the attribute's own printer.
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

/// The optional direction of a rounding: `rounding(up)` or `rounding(down)`.
mlir::ParseResult parseRounding(mlir::OpAsmParser &parser,
                                mlir::BoolAttr &roundUp);
void printRounding(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   mlir::BoolAttr roundUp);

/// Result types of an optimizer: the parameter's, one per state, and optionally
/// that of a low-precision copy.
mlir::ParseResult
parseUpdateTypes(mlir::OpAsmParser &parser,
                 llvm::ArrayRef<mlir::OpAsmParser::UnresolvedOperand> states,
                 mlir::Type &parameter,
                 llvm::SmallVectorImpl<mlir::Type> &newStates,
                 mlir::Type &copy);
void printUpdateTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::OperandRange states, mlir::Type parameter,
                      mlir::TypeRange newStates, mlir::Type copy);

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_IR_MPCASSEMBLY_H
