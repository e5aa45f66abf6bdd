//===- StablehloForms.cpp - textual form of stablehlo ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StablehloForms.h"

using namespace mlir;
namespace stablehlo = mpc::stablehlo;
using namespace mpc::stablehlo;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

ParseResult stablehlo::parseTypes(OpAsmParser &parser,
                                  MutableArrayRef<Type *> types) {
  Type type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(type))
    return failure();
  auto function = dyn_cast<FunctionType>(type);
  if (!function) {
    for (Type *each : types)
      *each = type;
    return success();
  }
  if (function.getNumInputs() + 1 != types.size() ||
      function.getNumResults() != 1)
    return parser.emitError(loc)
           << "expected " << types.size() - 1 << " operands and one result";
  for (auto [each, given] : llvm::zip(types, function.getInputs()))
    *each = given;
  *types.back() = function.getResult(0);
  return success();
}

void stablehlo::printTypes(OpAsmPrinter &printer, ArrayRef<Type> types) {
  if (llvm::all_equal(types))
    printer << types.back();
  else
    printer.printFunctionalType(TypeRange(types.drop_back()),
                                TypeRange(types.back()));
}

ParseResult stablehlo::parseSelectTypes(OpAsmParser &parser, Type &pred,
                                        Type &onTrue, Type &onFalse,
                                        Type &result) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(pred))
    return failure();
  if (auto function = dyn_cast<FunctionType>(pred)) {
    if (function.getNumInputs() != 3 || function.getNumResults() != 1)
      return parser.emitError(loc) << "expected 3 operands and one result";
    pred = function.getInput(0);
    onTrue = function.getInput(1);
    onFalse = function.getInput(2);
    result = function.getResult(0);
    return success();
  }
  if (parser.parseComma() || parser.parseType(result))
    return failure();
  onTrue = onFalse = result;
  return success();
}

void stablehlo::printSelectTypes(OpAsmPrinter &printer, Operation *, Type pred,
                                 Type onTrue, Type onFalse, Type result) {
  printer << pred << ", " << result;
}

ParseResult stablehlo::parsePairwiseTypes(OpAsmParser &parser,
                                          SmallVectorImpl<Type> &operands,
                                          SmallVectorImpl<Type> &results) {
  if (parser.parseTypeList(operands))
    return failure();
  results.assign(operands.begin(), operands.end());
  return success();
}

void stablehlo::printPairwiseTypes(OpAsmPrinter &printer, Operation *,
                                   TypeRange operands, TypeRange) {
  llvm::interleaveComma(operands, printer);
}

//===----------------------------------------------------------------------===//
// Operands and numbers
//===----------------------------------------------------------------------===//

ParseResult stablehlo::parseOperandsThenComma(OpAsmParser &parser,
                                              Operands &operands) {
  while (true) {
    OpAsmParser::UnresolvedOperand operand;
    OptionalParseResult parsed = parser.parseOptionalOperand(operand);
    if (!parsed.has_value()) {
      // Without operands JAX prints only the comma.
      if (operands.empty())
        (void)parser.parseOptionalComma();
      return success();
    }
    if (failed(*parsed) || parser.parseComma())
      return failure();
    operands.push_back(operand);
  }
}

void stablehlo::printOperandsThenComma(OpAsmPrinter &printer, Operation *,
                                       OperandRange operands) {
  for (auto [i, operand] : llvm::enumerate(operands))
    printer << (i ? " " : "") << operand << ",";
}

ParseResult stablehlo::parseDims(AsmParser &parser,
                                 SmallVectorImpl<int64_t> &dims) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(dims.emplace_back());
  });
}

void stablehlo::printDims(AsmPrinter &printer, ArrayRef<int64_t> dims) {
  printer << "[";
  llvm::interleaveComma(dims, printer);
  printer << "]";
}

ParseResult stablehlo::parseSliceRanges(OpAsmParser &parser,
                                        DenseI64ArrayAttr &starts,
                                        DenseI64ArrayAttr &limits,
                                        DenseI64ArrayAttr &strides) {
  SmallVector<int64_t> from, to, by;
  auto parseRange = [&]() -> ParseResult {
    if (parser.parseInteger(from.emplace_back()) || parser.parseColon() ||
        parser.parseInteger(to.emplace_back()))
      return failure();
    by.push_back(1);
    if (succeeded(parser.parseOptionalColon()))
      return parser.parseInteger(by.back());
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseRange))
    return failure();
  Builder &builder = parser.getBuilder();
  starts = builder.getDenseI64ArrayAttr(from);
  limits = builder.getDenseI64ArrayAttr(to);
  strides = builder.getDenseI64ArrayAttr(by);
  return success();
}

void stablehlo::printSliceRanges(OpAsmPrinter &printer, Operation *,
                                 DenseI64ArrayAttr starts,
                                 DenseI64ArrayAttr limits,
                                 DenseI64ArrayAttr strides) {
  printer << "[";
  llvm::interleaveComma(
      llvm::zip(starts.asArrayRef(), limits.asArrayRef(), strides.asArrayRef()),
      printer, [&](auto range) {
        auto [from, to, by] = range;
        printer << from << ":" << to;
        if (by != 1)
          printer << ":" << by;
      });
  printer << "]";
}

ParseResult stablehlo::parseExponentMantissa(OpAsmParser &parser,
                                             IntegerAttr &exponent,
                                             IntegerAttr &mantissa) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef text;
  if (parser.parseKeyword(&text))
    return failure();
  unsigned ofExponent = 0, ofMantissa = 0;
  StringRef rest = text;
  if (!rest.consume_front("e") || rest.consumeInteger(10, ofExponent) ||
      !rest.consume_front("m") || rest.getAsInteger(10, ofMantissa))
    return parser.emitError(loc)
           << "expected a format such as e5m10, found '" << text << "'";
  exponent = parser.getBuilder().getI32IntegerAttr(int32_t(ofExponent));
  mantissa = parser.getBuilder().getI32IntegerAttr(int32_t(ofMantissa));
  return success();
}

void stablehlo::printExponentMantissa(OpAsmPrinter &printer, Operation *,
                                      IntegerAttr exponent,
                                      IntegerAttr mantissa) {
  printer << "e" << exponent.getInt() << "m" << mantissa.getInt();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// `= [0, 1] x [0, 2]`
static ParseResult parseDimPair(OpAsmParser &parser,
                                SmallVectorImpl<int64_t> &lhs,
                                SmallVectorImpl<int64_t> &rhs) {
  return failure(parser.parseEqual() || parseDims(parser, lhs) ||
                 parser.parseKeyword("x") || parseDims(parser, rhs));
}

ParseResult stablehlo::parseDotDimensions(OpAsmParser &parser,
                                          DotDimensionNumbersAttr &dims) {
  SmallVector<int64_t> lhsBatch, rhsBatch, lhs, rhs;
  if (parser.parseComma())
    return failure();
  if (succeeded(parser.parseOptionalKeyword("batching_dims")))
    if (parseDimPair(parser, lhsBatch, rhsBatch) || parser.parseComma())
      return failure();
  if (parser.parseKeyword("contracting_dims") || parseDimPair(parser, lhs, rhs))
    return failure();
  dims = DotDimensionNumbersAttr::get(parser.getContext(), lhsBatch, rhsBatch,
                                      lhs, rhs);
  return success();
}

void stablehlo::printDotDimensions(OpAsmPrinter &printer, Operation *,
                                   DotDimensionNumbersAttr dims) {
  auto printPair = [&](StringRef name, ArrayRef<int64_t> lhs,
                       ArrayRef<int64_t> rhs) {
    printer << ", " << name << " = ";
    printDims(printer, lhs);
    printer << " x ";
    printDims(printer, rhs);
  };
  if (!dims.getLhsBatchingDimensions().empty() ||
      !dims.getRhsBatchingDimensions().empty())
    printPair("batching_dims", dims.getLhsBatchingDimensions(),
              dims.getRhsBatchingDimensions());
  printPair("contracting_dims", dims.getLhsContractingDimensions(),
            dims.getRhsContractingDimensions());
}

/// `= [DEFAULT, HIGH]`
static ParseResult parsePrecisions(OpAsmParser &parser, ArrayAttr &precision) {
  SmallVector<Attribute> each;
  auto parseOne = [&]() -> ParseResult {
    StringRef text;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&text))
      return failure();
    std::optional<Precision> value = symbolizePrecision(text);
    if (!value)
      return parser.emitError(loc) << "unknown precision '" << text << "'";
    each.push_back(PrecisionAttr::get(parser.getContext(), *value));
    return success();
  };
  if (parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  precision = parser.getBuilder().getArrayAttr(each);
  return success();
}

ParseResult stablehlo::parseDotPrecision(OpAsmParser &parser,
                                         ArrayAttr &precision,
                                         DotAlgorithmAttr &algorithm) {
  while (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("precision"))) {
      if (parsePrecisions(parser, precision))
        return failure();
      continue;
    }
    if (parser.parseKeyword("algorithm") || parser.parseEqual())
      return failure();
    algorithm = dyn_cast_or_null<DotAlgorithmAttr>(
        DotAlgorithmAttr::parse(parser, Type()));
    if (!algorithm)
      return failure();
  }
  return success();
}

void stablehlo::printPrecision(OpAsmPrinter &printer, Operation *,
                               ArrayAttr precision) {
  if (!precision)
    return;
  printer << ", precision = [";
  llvm::interleaveComma(precision.getAsRange<PrecisionAttr>(), printer,
                        [&](PrecisionAttr each) {
                          printer << stringifyPrecision(each.getValue());
                        });
  printer << "]";
}

void stablehlo::printDotPrecision(OpAsmPrinter &printer, Operation *op,
                                  ArrayAttr precision,
                                  DotAlgorithmAttr algorithm) {
  printPrecision(printer, op, precision);
  if (algorithm) {
    printer << ", algorithm = ";
    algorithm.print(printer);
  }
}

ParseResult stablehlo::parsePrecision(OpAsmParser &parser,
                                      ArrayAttr &precision) {
  if (failed(parser.parseOptionalComma()))
    return success();
  return failure(parser.parseKeyword("precision") ||
                 parsePrecisions(parser, precision));
}

/// Parses one of the three lists of a convolution: the positions of `letters`
/// and of the spatial dimensions, in order.
static ParseResult parsePlaces(AsmParser &parser, StringRef letters,
                               int64_t &first, int64_t &second,
                               SmallVectorImpl<int64_t> &spatial) {
  first = second = -1;
  int64_t place = 0;
  SmallVector<std::pair<int64_t, int64_t>> numbered;
  SMLoc loc = parser.getCurrentLocation();
  auto parseEntry = [&]() -> ParseResult {
    StringRef letter;
    int64_t number;
    OptionalParseResult isNumber = parser.parseOptionalInteger(number);
    if (isNumber.has_value()) {
      if (failed(*isNumber))
        return failure();
      numbered.emplace_back(number, place++);
      return success();
    }
    if (parser.parseKeyword(&letter))
      return failure();
    int64_t &which = letter == letters.take_front() ? first : second;
    if (letter.size() != 1 || !letters.contains(letter) || which >= 0)
      return parser.emitError(loc) << "expected one '" << letters.take_front()
                                   << "', one '" << letters.drop_front()
                                   << "' and numbers, found '" << letter << "'";
    which = place++;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEntry))
    return failure();
  llvm::sort(numbered);
  for (auto [i, entry] : llvm::enumerate(numbered)) {
    if (entry.first != int64_t(i))
      return parser.emitError(loc)
             << "spatial dimensions must be numbered from 0, each once";
    spatial.push_back(entry.second);
  }
  if (first < 0 || second < 0)
    return parser.emitError(loc)
           << "expected one '" << letters.take_front() << "' and one '"
           << letters.drop_front() << "'";
  return success();
}

ParseResult stablehlo::parseConvDimensions(AsmParser &parser,
                                           ConvDimensionNumbersAttr &dims) {
  int64_t batch, feature, in, out, outBatch, outFeature;
  SmallVector<int64_t> input, kernel, output;
  if (parsePlaces(parser, "bf", batch, feature, input) ||
      parser.parseKeyword("x") || parsePlaces(parser, "io", in, out, kernel) ||
      parser.parseArrow() ||
      parsePlaces(parser, "bf", outBatch, outFeature, output))
    return failure();
  dims = ConvDimensionNumbersAttr::get(parser.getContext(), batch, feature,
                                       input, in, out, kernel, outBatch,
                                       outFeature, output);
  return success();
}

void stablehlo::printConvDimensions(AsmPrinter &printer,
                                    ConvDimensionNumbersAttr dims) {
  auto print = [&](StringRef letters, int64_t first, int64_t second,
                   ArrayRef<int64_t> spatial) {
    size_t rank = spatial.size() + 2;
    printer << "[";
    for (size_t place = 0; place < rank; ++place) {
      printer << (place ? ", " : "");
      const int64_t *number = llvm::find(spatial, int64_t(place));
      if (int64_t(place) == first)
        printer << letters.take_front();
      else if (int64_t(place) == second)
        printer << letters.drop_front();
      else
        printer << number - spatial.begin();
    }
    printer << "]";
  };
  print("bf", dims.getInputBatch(), dims.getInputFeature(),
        dims.getInputSpatial());
  printer << "x";
  print("io", dims.getKernelInputFeature(), dims.getKernelOutputFeature(),
        dims.getKernelSpatial());
  printer << "->";
  print("bf", dims.getOutputBatch(), dims.getOutputFeature(),
        dims.getOutputSpatial());
}

/// `[[3, 2], [2, 1]]`
static ParseResult parsePadding(OpAsmParser &parser,
                                DenseIntElementsAttr &padding) {
  SmallVector<int64_t> numbers;
  int64_t pairs = 0;
  SMLoc loc = parser.getCurrentLocation();
  auto parsePair = [&]() -> ParseResult {
    ++pairs;
    if (parseDims(parser, numbers))
      return failure();
    if (int64_t(numbers.size()) != 2 * pairs)
      return parser.emitError(loc) << "expected pairs of low and high padding";
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePair))
    return failure();
  auto type =
      RankedTensorType::get({pairs, 2}, parser.getBuilder().getI64Type());
  padding = DenseIntElementsAttr::get(type, ArrayRef(numbers));
  return success();
}

ParseResult stablehlo::parseWindow(OpAsmParser &parser,
                                   DenseI64ArrayAttr &strides,
                                   DenseIntElementsAttr &padding,
                                   DenseI64ArrayAttr &lhsDilation,
                                   DenseI64ArrayAttr &rhsDilation,
                                   DenseBoolArrayAttr &reversal) {
  auto parseArray = [&](DenseI64ArrayAttr &array) -> ParseResult {
    SmallVector<int64_t> numbers;
    if (parseDims(parser, numbers))
      return failure();
    array = parser.getBuilder().getDenseI64ArrayAttr(numbers);
    return success();
  };
  auto parseReversal = [&]() -> ParseResult {
    SmallVector<bool> flags;
    auto parseFlag = [&]() -> ParseResult {
      if (succeeded(parser.parseOptionalKeyword("true")))
        flags.push_back(true);
      else if (succeeded(parser.parseOptionalKeyword("false")))
        flags.push_back(false);
      else {
        int64_t number;
        if (parser.parseInteger(number))
          return failure();
        flags.push_back(number != 0);
      }
      return success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseFlag))
      return failure();
    reversal = parser.getBuilder().getDenseBoolArrayAttr(flags);
    return success();
  };
  // The format prints the braces, even if empty.
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword(&name)))
    return success();
  auto parseEntry = [&]() -> ParseResult {
    if (parser.parseEqual())
      return failure();
    if (name == "stride")
      return parseArray(strides);
    if (name == "pad")
      return parsePadding(parser, padding);
    if (name == "lhs_dilate")
      return parseArray(lhsDilation);
    if (name == "rhs_dilate")
      return parseArray(rhsDilation);
    if (name == "reverse")
      return parseReversal();
    return parser.emitError(loc) << "a window has no '" << name << "'";
  };
  while (true) {
    if (parseEntry())
      return failure();
    if (failed(parser.parseOptionalComma()))
      return success();
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
  }
}

void stablehlo::printWindow(OpAsmPrinter &printer, Operation *,
                            DenseI64ArrayAttr strides,
                            DenseIntElementsAttr padding,
                            DenseI64ArrayAttr lhsDilation,
                            DenseI64ArrayAttr rhsDilation,
                            DenseBoolArrayAttr reversal) {
  StringRef separator = "";
  auto name = [&](StringRef text) {
    printer << separator << text << " = ";
    separator = ", ";
  };
  auto printArray = [&](StringRef text, DenseI64ArrayAttr array) {
    if (!array)
      return;
    name(text);
    printDims(printer, array);
  };
  printArray("stride", strides);
  if (padding) {
    name("pad");
    auto numbers = llvm::to_vector(padding.getValues<int64_t>());
    printer << "[";
    for (size_t i = 0; i + 1 < numbers.size(); i += 2) {
      printer << (i ? ", " : "");
      printDims(printer, {numbers[i], numbers[i + 1]});
    }
    printer << "]";
  }
  printArray("lhs_dilate", lhsDilation);
  printArray("rhs_dilate", rhsDilation);
  if (reversal) {
    name("reverse");
    printer << "[";
    llvm::interleaveComma(reversal.asArrayRef(), printer, [&](bool flag) {
      printer << (flag ? "true" : "false");
    });
    printer << "]";
  }
}

ParseResult stablehlo::parseTarget(OpAsmParser &parser, StringAttr &target) {
  if (succeeded(parser.parseOptionalSymbolName(target)))
    return success();
  return parser.parseAttribute(target);
}

void stablehlo::printTarget(OpAsmPrinter &printer, Operation *,
                            StringAttr target) {
  printer.printSymbolName(target.getValue());
}
