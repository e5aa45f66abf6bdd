//===- StablehloRegions.cpp - ops with regions ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StablehloForms.h"
#include "StablehloVerify.h"

using namespace mlir;
namespace stablehlo = mpc::stablehlo;
using namespace mpc::stablehlo;

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

/// Returns the only op of a body that takes two scalars in order, or null.
static Operation *onlyOp(Region &body) {
  Block &block = body.front();
  if (block.getNumArguments() != 2 || block.getOperations().size() != 2 ||
      !isa<ReturnOp>(block.back()))
    return nullptr;
  Operation *op = &block.front();
  if (op->getNumOperands() != 2 || op->getNumResults() != 1 ||
      op->getOperand(0) != block.getArgument(0) ||
      op->getOperand(1) != block.getArgument(1) || !op->getAttrs().empty() ||
      op->getResult(0).getType() != block.getArgument(0).getType() ||
      block.getArgument(0).getType() != block.getArgument(1).getType() ||
      block.back().getOperands() != op->getResults() ||
      !isa<StablehloDialect>(op->getDialect()))
    return nullptr;
  return op;
}

void ReduceOp::print(OpAsmPrinter &printer) {
  printer << "(";
  bool isFirst = true;
  for (auto [input, init] : llvm::zip(getInputs(), getInitValues())) {
    printer << (isFirst ? "" : ", (") << input << " init: " << init << ")";
    isFirst = false;
  }
  Operation *joins = getInputs().size() == 1 ? onlyOp(getBody()) : nullptr;
  if (joins)
    printer << " applies " << joins->getName();
  printer << " across dimensions = ";
  printDims(printer, getDimensions());
  printer.printOptionalAttrDict((*this)->getAttrs(), {"dimensions"});
  printer << " : ";
  printer.printFunctionalType(*this);
  if (joins)
    return;
  printer.printNewline();
  printer << " reducer";
  Block &block = getBody().front();
  size_t count = getInputs().size();
  for (size_t i = 0; i < count; ++i) {
    printer << (i ? " (" : "(");
    printer.printRegionArgument(block.getArgument(i));
    printer << ", ";
    printer.printRegionArgument(block.getArgument(count + i));
    printer << ")";
  }
  printer << "  ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// Builds the body that `applies` abbreviates.
static ParseResult buildBody(OpAsmParser &parser, SMLoc loc, StringRef name,
                             Type operand, Region &body) {
  auto tensor = dyn_cast<ShapedType>(operand);
  std::optional<RegisteredOperationName> op =
      RegisteredOperationName::lookup(name, parser.getContext());
  if (!tensor || !op || !isa<StablehloDialect>(op->getDialect()) ||
      !op->hasTrait<OpTrait::NOperands<2>::Impl>())
    return parser.emitError(loc)
           << "expected an op of two numbers, found '" << name << "'";
  Location at = parser.getEncodedSourceLoc(loc);
  Type scalar = RankedTensorType::get({}, tensor.getElementType());
  OpBuilder builder(parser.getContext());
  Block *block = builder.createBlock(&body, {}, {scalar, scalar}, {at, at});
  OperationState state(at, *op);
  state.addOperands(block->getArguments());
  state.addTypes(scalar);
  Operation *joins = builder.create(state);
  ReturnOp::create(builder, at, joins->getResults());
  return success();
}

ParseResult ReduceOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands, inits;
  SMLoc begin = parser.getCurrentLocation();
  do {
    if (parser.parseLParen() || parser.parseOperand(operands.emplace_back()) ||
        parser.parseKeyword("init") || parser.parseColon() ||
        parser.parseOperand(inits.emplace_back()) || parser.parseRParen())
      return failure();
  } while (succeeded(parser.parseOptionalComma()));
  size_t count = operands.size();
  StringRef joins;
  SMLoc joinsLoc;
  if (succeeded(parser.parseOptionalKeyword("applies")))
    if (parser.getCurrentLocation(&joinsLoc) || parser.parseKeyword(&joins))
      return failure();
  SmallVector<int64_t> dims;
  FunctionType type;
  if (parser.parseKeyword("across") || parser.parseKeyword("dimensions") ||
      parser.parseEqual() || parseDims(parser, dims) ||
      parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseColonType(type))
    return failure();
  state.addAttribute("dimensions",
                     parser.getBuilder().getDenseI64ArrayAttr(dims));
  state.addTypes(type.getResults());
  operands.append(inits);
  if (type.getNumInputs() != operands.size())
    return parser.emitError(begin)
           << "has " << operands.size() << " operands and types of "
           << type.getNumInputs();
  if (parser.resolveOperands(operands, type.getInputs(), begin, state.operands))
    return failure();
  Region &body = *state.addRegion();
  if (!joins.empty()) {
    if (count != 1)
      return parser.emitError(joinsLoc)
             << "'applies' reduces one operand, not " << count;
    return buildBody(parser, joinsLoc, joins, type.getInput(0), body);
  }
  SmallVector<OpAsmParser::Argument> lhs(count), rhs(count);
  if (parser.parseKeyword("reducer"))
    return failure();
  for (size_t i = 0; i < count; ++i)
    if (parser.parseLParen() ||
        parser.parseArgument(lhs[i], /*allowType=*/true) ||
        parser.parseComma() ||
        parser.parseArgument(rhs[i], /*allowType=*/true) ||
        parser.parseRParen())
      return failure();
  lhs.append(rhs);
  return parser.parseRegion(body, lhs);
}

//===----------------------------------------------------------------------===//
// while
//===----------------------------------------------------------------------===//

void WhileOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments())
    setName(argument, "iterArg");
}

void WhileOp::print(OpAsmPrinter &printer) {
  printer << "(";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getOperand()),
                        printer, [&](auto pair) {
                          auto [argument, operand] = pair;
                          printer << argument << " = " << operand;
                        });
  printer << ")";
  if (getNumOperands())
    printer << " : " << getOperandTypes();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer.printNewline();
  printer << "cond ";
  printer.printRegion(getCond(), /*printEntryBlockArgs=*/false);
  printer << " do ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult WhileOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, operands))
    return failure();
  SmallVector<Type> types;
  if (!operands.empty() && parser.parseColonTypeList(types))
    return failure();
  if (types.size() != operands.size())
    return parser.emitError(loc)
           << "has " << operands.size() << " operands and " << types.size()
           << " types";
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  state.addTypes(types);
  return failure(parser.resolveOperands(operands, types, loc, state.operands) ||
                 parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
                 parser.parseKeyword("cond") ||
                 parser.parseRegion(*state.addRegion(), arguments) ||
                 parser.parseKeyword("do") ||
                 parser.parseRegion(*state.addRegion(), arguments));
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Checks the argument and result types of `region`, called `name` in
/// diagnostics.
static LogicalResult verifyRegion(Operation *op, Region &region, StringRef name,
                                  TypeRange takes, TypeRange gives) {
  Block &block = region.front();
  if (block.empty() || !isa<ReturnOp>(block.back()))
    return op->emitOpError() << name << " must end in stablehlo.return";
  TypeRange found = block.getArgumentTypes();
  TypeRange returned = block.back().getOperandTypes();
  auto differs = [&](StringRef verb, TypeRange has, TypeRange due) {
    return op->emitOpError() << name << " " << verb << " (" << has
                             << "), expected (" << due << ")";
  };
  if (found != takes)
    return differs("takes", found, takes);
  if (returned != gives)
    return differs("gives", returned, gives);
  return success();
}

static Type scalarOf(Type type) {
  return RankedTensorType::get({}, cast<ShapedType>(type).getElementType());
}

/// Checks a region that combines two scalars of each of `types`.
static LogicalResult verifyJoin(Operation *op, Region &region, StringRef name,
                                TypeRange types) {
  SmallVector<Type> scalars = llvm::map_to_vector(types, scalarOf);
  SmallVector<Type> takes(scalars);
  takes.append(scalars);
  return verifyRegion(op, region, name, takes, scalars);
}

/// Checks that operands have equal shapes and an initial scalar each.
static LogicalResult verifyReduced(Operation *op, OperandRange inputs,
                                   OperandRange inits) {
  if (inputs.empty())
    return op->emitOpError("has no operands");
  for (auto [input, init] : llvm::zip(inputs, inits)) {
    if (shapeOf(input) != shapeOf(inputs[0]))
      return op->emitOpError()
             << "has operands of shapes [" << shapeOf(inputs[0]) << "] and ["
             << shapeOf(input) << "]";
    if (init.getType() != scalarOf(input.getType()))
      return op->emitOpError()
             << "initializes " << input.getType() << " with " << init.getType();
  }
  return success();
}

/// Checks for one result of `shape` per input.
static LogicalResult verifyResults(Operation *op, OperandRange inputs,
                                   ResultRange results,
                                   ArrayRef<int64_t> shape) {
  if (inputs.size() != results.size())
    return op->emitOpError() << "has " << inputs.size() << " operands and "
                             << results.size() << " results";
  for (auto [input, result] : llvm::zip(inputs, results))
    if (failed(verifyType(op, result, shape, elementOf(input))))
      return failure();
  return success();
}

LogicalResult ReduceOp::verify() {
  // C1
  if (failed(verifyReduced(*this, getInputs(), getInitValues())))
    return failure();
  // C2
  ArrayRef<int64_t> from = shapeOf(getInputs()[0]);
  if (failed(verifyDims(*this, "dimensions", getDimensions(), from.size())))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [i, extent] : llvm::enumerate(from))
    if (!llvm::is_contained(getDimensions(), int64_t(i)))
      shape.push_back(extent);
  if (failed(verifyResults(*this, getInputs(), getResults(), shape)))
    return failure();
  // C3
  return verifyJoin(*this, getBody(), "body", getInputs().getTypes());
}

LogicalResult ReduceWindowOp::verify() {
  // C1
  if (failed(verifyReduced(*this, getInputs(), getInitValues())))
    return failure();
  // C2
  FailureOr<SmallVector<int64_t>> shape = windowedShape(
      *this, shapeOf(getInputs()[0]), getWindowDimensions(), getWindowStrides(),
      getPadding(), getBaseDilations(), getWindowDilations());
  if (failed(shape) ||
      failed(verifyResults(*this, getInputs(), getResults(), *shape)))
    return failure();
  // C3
  return verifyJoin(*this, getBody(), "body", getInputs().getTypes());
}

LogicalResult SelectAndScatterOp::verify() {
  Type scalar = scalarOf(getOperand().getType());
  SmallVector<int64_t> ones(shapeOf(getOperand()).size(), 1);
  // C1
  FailureOr<SmallVector<int64_t>> shape = windowedShape(
      *this, shapeOf(getOperand()), getWindowDimensions().value_or(ones),
      getWindowStrides(), getPadding(), std::nullopt, std::nullopt);
  if (failed(shape) ||
      failed(verifyType(*this, getSource(), *shape, elementOf(getOperand()))))
    return failure();
  if (getInitValue().getType() != scalar)
    return emitOpError() << "initializes " << getOperand().getType() << " with "
                         << getInitValue().getType();
  // C2
  Type boolean = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  return failure(failed(verifyRegion(*this, getSelect(), "select",
                                     {scalar, scalar}, {boolean})) ||
                 failed(verifyRegion(*this, getScatter(), "scatter",
                                     {scalar, scalar}, {scalar})));
}

LogicalResult SortOp::verify() {
  // C1
  if (getInputs().empty())
    return emitOpError("has no operands");
  if (getInputs().getTypes() != getResultTypes())
    return emitOpError("gives other types than it takes");
  for (Value input : getInputs())
    if (shapeOf(input) != shapeOf(getInputs()[0]))
      return emitOpError("has operands of different shapes");
  auto rank = int64_t(shapeOf(getInputs()[0]).size());
  auto dimension = int64_t(getDimension());
  if (dimension < -rank || dimension >= rank)
    return emitOpError() << "sorts along dimension " << dimension << " of rank "
                         << rank;
  // C2
  SmallVector<Type> takes;
  for (Value input : getInputs())
    takes.append(2, scalarOf(input.getType()));
  Type boolean = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  return verifyRegion(*this, getComparator(), "comparator", takes, {boolean});
}

LogicalResult MapOp::verify() {
  // C1
  if (getInputs().empty())
    return emitOpError("has no operands");
  ArrayRef<int64_t> shape = shapeOf(getInputs()[0]);
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(shape.size()));
  if (getDimensions() != ArrayRef<int64_t>(all))
    return emitOpError("must name all dimensions in order");
  // C2
  return verifyRegion(*this, getComputation(), "computation",
                      llvm::map_to_vector(getInputs().getTypes(), scalarOf),
                      {scalarOf(getType())});
}

LogicalResult ScatterOp::verify() {
  // C1
  if (getInputs().empty() || getInputs().getTypes() != getResultTypes())
    return emitOpError("gives other types than it takes");
  ScatterDimensionNumbersAttr dims = getScatterDimensionNumbers();
  ArrayRef<int64_t> input = shapeOf(getInputs()[0]);
  ArrayRef<int64_t> update = shapeOf(getUpdates()[0]);
  for (auto [each, given] : llvm::zip(getInputs(), getUpdates()))
    if (shapeOf(each) != input || shapeOf(given) != update ||
        elementOf(each) != elementOf(given))
      return emitOpError("has inputs or updates that differ in shape");
  // C2
  FailureOr<IndexDims> index = verifyIndexDims(
      *this, shapeOf(getScatterIndices()), input.size(),
      {dims.getUpdateWindowDims(), dims.getInsertedWindowDims(),
       dims.getInputBatchingDims(), dims.getScatterIndicesBatchingDims(),
       dims.getScatterDimsToOperandDims(), dims.getIndexVectorDim()},
      update.size());
  if (failed(index))
    return failure();
  size_t scattered = 0, window = 0;
  for (auto [i, extent] : llvm::enumerate(update)) {
    if (llvm::is_contained(dims.getUpdateWindowDims(), int64_t(i))) {
      int64_t most = input[index->windowDims[window++]];
      if (extent > most)
        return emitOpError()
               << "writes " << extent << " elements where " << most << " are";
    } else if (extent != index->batchShape[scattered++]) {
      return emitOpError() << "has updates of shape [" << update
                           << "] that do not go with its indices";
    }
  }
  for (auto [of, at] : llvm::zip(dims.getInputBatchingDims(),
                                 dims.getScatterIndicesBatchingDims()))
    if (input[of] != shapeOf(getScatterIndices())[at])
      return emitOpError("has batches of different extents");
  // C3
  return verifyJoin(*this, getUpdateComputation(), "update computation",
                    getInputs().getTypes());
}

LogicalResult WhileOp::verify() {
  // C1
  if (getOperandTypes() != getResultTypes())
    return emitOpError("gives other types than it takes");
  Type boolean = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  return failure(failed(verifyRegion(*this, getCond(), "cond",
                                     getOperandTypes(), {boolean})) ||
                 failed(verifyRegion(*this, getBody(), "body",
                                     getOperandTypes(), getOperandTypes())));
}

LogicalResult IfOp::verify() {
  // C1
  if (!shapeOf(getPred()).empty())
    return emitOpError("needs a scalar to decide");
  return failure(failed(verifyRegion(*this, getTrueBranch(), "true branch", {},
                                     getResultTypes())) ||
                 failed(verifyRegion(*this, getFalseBranch(), "false branch",
                                     {}, getResultTypes())));
}

LogicalResult CaseOp::verify() {
  // C1
  if (getBranches().empty())
    return emitOpError("has no branches");
  for (Region &branch : getBranches())
    if (failed(verifyRegion(*this, branch, "branch", {}, getResultTypes())))
      return failure();
  return success();
}

LogicalResult OptimizationBarrierOp::verify() {
  // C1
  if (getOperandTypes() != getResultTypes())
    return emitOpError("gives other types than it takes");
  return success();
}
