//===- StablehloForms.h - textual form of stablehlo -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsers and printers for the custom directives of the assembly formats.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOFORMS_H
#define MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOFORMS_H

#include "mpc/Dialect/Stablehlo/IR/StablehloOps.h"

namespace mpc::stablehlo {

using Operands = llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>;

/// One common type, or a function type.
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser,
                             llvm::MutableArrayRef<mlir::Type *> types);
void printTypes(mlir::OpAsmPrinter &printer, llvm::ArrayRef<mlir::Type> types);
template <typename... Types>
mlir::ParseResult parseSameTypes(mlir::OpAsmParser &parser, Types &...types) {
  mlir::Type *all[] = {&types...};
  return parseTypes(parser, all);
}
template <typename... Types>
void printSameTypes(mlir::OpAsmPrinter &printer, mlir::Operation *,
                    Types... types) {
  printTypes(printer, {types...});
}

/// The predicate's type and that of all others, or a function type.
mlir::ParseResult parseSelectTypes(mlir::OpAsmParser &parser, mlir::Type &pred,
                                   mlir::Type &onTrue, mlir::Type &onFalse,
                                   mlir::Type &result);
void printSelectTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::Type pred, mlir::Type onTrue, mlir::Type onFalse,
                      mlir::Type result);

/// Types shared pairwise by operands and results.
mlir::ParseResult
parsePairwiseTypes(mlir::OpAsmParser &parser,
                   llvm::SmallVectorImpl<mlir::Type> &operands,
                   llvm::SmallVectorImpl<mlir::Type> &results);
void printPairwiseTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                        mlir::TypeRange operands, mlir::TypeRange results);

/// `%a, %b,`
mlir::ParseResult parseOperandsThenComma(mlir::OpAsmParser &parser,
                                         Operands &operands);
void printOperandsThenComma(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                            mlir::OperandRange operands);

/// `[0:4, 1:8:2]`: start, limit and stride.
mlir::ParseResult parseSliceRanges(mlir::OpAsmParser &parser,
                                   mlir::DenseI64ArrayAttr &starts,
                                   mlir::DenseI64ArrayAttr &limits,
                                   mlir::DenseI64ArrayAttr &strides);
void printSliceRanges(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::DenseI64ArrayAttr starts,
                      mlir::DenseI64ArrayAttr limits,
                      mlir::DenseI64ArrayAttr strides);

/// `e5m10`
mlir::ParseResult parseExponentMantissa(mlir::OpAsmParser &parser,
                                        mlir::IntegerAttr &exponent,
                                        mlir::IntegerAttr &mantissa);
void printExponentMantissa(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                           mlir::IntegerAttr exponent,
                           mlir::IntegerAttr mantissa);

/// `, batching_dims = [0] x [0], contracting_dims = [2] x [1]`
mlir::ParseResult parseDotDimensions(mlir::OpAsmParser &parser,
                                     DotDimensionNumbersAttr &dims);
void printDotDimensions(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                        DotDimensionNumbersAttr dims);

/// `, precision = [DEFAULT, DEFAULT], algorithm = <...>`, each optional.
mlir::ParseResult parseDotPrecision(mlir::OpAsmParser &parser,
                                    mlir::ArrayAttr &precision,
                                    DotAlgorithmAttr &algorithm);
void printDotPrecision(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::ArrayAttr precision, DotAlgorithmAttr algorithm);
mlir::ParseResult parsePrecision(mlir::OpAsmParser &parser,
                                 mlir::ArrayAttr &precision);
void printPrecision(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                    mlir::ArrayAttr precision);

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`
mlir::ParseResult parseConvDimensions(mlir::AsmParser &parser,
                                      ConvDimensionNumbersAttr &dims);
void printConvDimensions(mlir::AsmPrinter &printer,
                         ConvDimensionNumbersAttr dims);
inline void printConvDimensions(mlir::OpAsmPrinter &printer, mlir::Operation *,
                                ConvDimensionNumbersAttr dims) {
  printConvDimensions(printer, dims);
}

/// `stride = [2, 1], pad = [[3, 2], [2, 1]], lhs_dilate = [1, 1],
/// rhs_dilate = [1, 2], reverse = [false, false]`, each where given.
mlir::ParseResult parseWindow(mlir::OpAsmParser &parser,
                              mlir::DenseI64ArrayAttr &strides,
                              mlir::DenseIntElementsAttr &padding,
                              mlir::DenseI64ArrayAttr &lhsDilation,
                              mlir::DenseI64ArrayAttr &rhsDilation,
                              mlir::DenseBoolArrayAttr &reversal);
void printWindow(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::DenseI64ArrayAttr strides,
                 mlir::DenseIntElementsAttr padding,
                 mlir::DenseI64ArrayAttr lhsDilation,
                 mlir::DenseI64ArrayAttr rhsDilation,
                 mlir::DenseBoolArrayAttr reversal);

/// `@name` or a string.
mlir::ParseResult parseTarget(mlir::OpAsmParser &parser,
                              mlir::StringAttr &target);
void printTarget(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::StringAttr target);

/// `[1, 2]`
mlir::ParseResult parseDims(mlir::AsmParser &parser,
                            llvm::SmallVectorImpl<int64_t> &dims);
void printDims(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> dims);

} // namespace mpc::stablehlo

#endif // MPC_LIB_DIALECT_STABLEHLO_IR_STABLEHLOFORMS_H
