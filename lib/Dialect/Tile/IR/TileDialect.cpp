//===- TileDialect.cpp - the tile dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Tile/IR/TileOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tile;

#include "mpc/Dialect/Tile/IR/TileDialect.cpp.inc"
#include "mpc/Dialect/Tile/IR/TileEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "mpc/Dialect/Tile/IR/TileTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Tile/IR/TileAttributes.cpp.inc"

void TileDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mpc/Dialect/Tile/IR/TileOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpc/Dialect/Tile/IR/TileAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "mpc/Dialect/Tile/IR/TileTypes.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Teams and blocks
//===----------------------------------------------------------------------===//

LogicalResult
ThreadMappingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          int64_t members, int64_t items, int64_t vector,
                          int64_t steps, int64_t splits, int64_t rounds,
                          int64_t groups, int64_t firstBlock, Place, Place,
                          bool columns, bool everyBlock) {
  // C1
  for (int64_t number : {members, items, vector, steps + 1, splits, rounds,
                         groups, firstBlock + 1})
    if (number < 1)
      return emitError()
             << "the numbers of a thread mapping must be positive, found "
             << number;
  constexpr int64_t kMostThreads = 1024, kWarp = 32;
  if (members * items > kMostThreads)
    return emitError() << "a block has at most " << kMostThreads
                       << " threads, found " << members << " x " << items;
  // C2
  bool isEven = members < kWarp ? llvm::isPowerOf2_64(uint64_t(members))
                                : members % kWarp == 0;
  if (!columns && !isEven)
    return emitError() << "the threads per item must be a power of two or a "
                          "multiple of a warp, found "
                       << members;
  // C3
  if (everyBlock && (members > kWarp || splits > 1))
    return emitError() << "a mapping with every_block has at most " << kWarp
                       << " threads per item and one block, found " << members
                       << " threads and " << splits << " blocks";
  return success();
}

LogicalResult BlocksAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t rows, int64_t columns, int64_t chunk,
                                 int64_t blocksPerItem, int64_t panelsPerItem,
                                 Packing, Ahead) {
  // C1
  for (int64_t number :
       {rows, columns, chunk + 1, blocksPerItem, panelsPerItem + 1})
    if (number < 1)
      return emitError() << "the numbers of a blocking must be positive, found "
                         << number;
  return success();
}

//===----------------------------------------------------------------------===//
// own
//===----------------------------------------------------------------------===//

void ForEachOp::build(OpBuilder &builder, OperationState &state, int64_t count,
                      double cycles, bool inOrder, ThreadMappingAttr team) {
  state.addAttribute(getCountAttrName(state.name),
                     builder.getI64IntegerAttr(count));
  state.addAttribute(getCyclesAttrName(state.name),
                     builder.getF64FloatAttr(cycles));
  if (inOrder)
    state.addAttribute(getInOrderAttrName(state.name), builder.getUnitAttr());
  if (team)
    state.addAttribute(getTeamAttrName(state.name), team);
  Region *body = state.addRegion();
  body->emplaceBlock().addArgument(builder.getIndexType(), state.location);
  ensureTerminator(*body, builder, state.location);
}

ParseResult ForEachOp::parse(OpAsmParser &parser, OperationState &state) {
  OpAsmParser::Argument item;
  item.type = parser.getBuilder().getIndexType();
  IntegerAttr count;
  FloatAttr cycles;
  Type i64 = parser.getBuilder().getI64Type(),
       f64 = parser.getBuilder().getF64Type();
  if (parser.parseArgument(item) || parser.parseKeyword("in") ||
      parser.parseLParen() ||
      parser.parseAttribute(count, i64, getCountAttrName(state.name),
                            state.attributes) ||
      parser.parseRParen() || parser.parseKeyword("cycles") ||
      parser.parseLParen() ||
      parser.parseAttribute(cycles, f64, getCyclesAttrName(state.name),
                            state.attributes) ||
      parser.parseRParen())
    return failure();
  if (succeeded(parser.parseOptionalKeyword("in_order")))
    state.addAttribute(getInOrderAttrName(state.name),
                       parser.getBuilder().getUnitAttr());
  if (succeeded(parser.parseOptionalKeyword("threads"))) {
    ThreadMappingAttr team;
    if (parser.parseLParen() ||
        parser.parseAttribute(team, getTeamAttrName(state.name),
                              state.attributes) ||
        parser.parseRParen())
      return failure();
  }
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, item) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), state.location);
  return success();
}

void ForEachOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getItem() << " in (" << getCount() << ") cycles(";
  printer.printAttributeWithoutType(getCyclesAttr());
  printer << ')';
  if (getInOrder())
    printer << " in_order";
  if (ThreadMappingAttr team = getTeamAttr())
    printer << " threads(" << team << ')';
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"count", "cycles", "in_order", "team"});
}

LogicalResult ForEachOp::verifyRegions() {
  if (static_cast<int64_t>(getCount()) < 0)
    return emitOpError() << "has " << int64_t(getCount()) << " items";
  if (getBody().getNumArguments() != 1 ||
      !getBody().getArgument(0).getType().isIndex())
    return emitOpError("needs a region of one index");
  return success();
}

//===----------------------------------------------------------------------===//
// walk
//===----------------------------------------------------------------------===//

/// Type of the mask of a walk.
static Type maskType(Builder builder, int64_t by) {
  return VectorType::get({by}, builder.getI1Type());
}

void ItemLoopOp::build(OpBuilder &builder, OperationState &state,
                       ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t by,
                       bool masked, ValueRange initial) {
  state.addOperands(initial);
  state.addTypes(initial.getTypes());
  state.addAttribute(getFromAttrName(state.name),
                     builder.getDenseI64ArrayAttr(from));
  state.addAttribute(getToAttrName(state.name),
                     builder.getDenseI64ArrayAttr(to));
  state.addAttribute(getByAttrName(state.name), builder.getI64IntegerAttr(by));
  if (masked)
    state.addAttribute(getMaskedAttrName(state.name), builder.getUnitAttr());
  Region *body = state.addRegion();
  Block &block = body->emplaceBlock();
  for (size_t i = 0; i < from.size(); ++i)
    block.addArgument(builder.getIndexType(), state.location);
  if (masked)
    block.addArgument(maskType(builder, by), state.location);
  for (Value value : initial)
    block.addArgument(value.getType(), state.location);
  if (initial.empty())
    ensureTerminator(*body, builder, state.location);
}

ParseResult ItemLoopOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren))
    return failure();
  for (OpAsmParser::Argument &argument : arguments)
    argument.type = builder.getIndexType();
  auto numbers = [&](StringRef keyword, StringAttr name) -> ParseResult {
    SmallVector<int64_t> values;
    if (parser.parseKeyword(keyword) ||
        parser.parseCommaSeparatedList(
            OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
              return parser.parseInteger(values.emplace_back());
            }))
      return failure();
    state.addAttribute(name, builder.getDenseI64ArrayAttr(values));
    return success();
  };
  int64_t by = 1;
  if (numbers("from", getFromAttrName(state.name)) ||
      numbers("to", getToAttrName(state.name)) || parser.parseKeyword("by"))
    return failure();
  SMLoc width = parser.getCurrentLocation();
  if (parser.parseInteger(by))
    return failure();
  if (by < 1)
    return parser.emitError(width)
           << "needs a vector width of at least 1, found " << by;
  state.addAttribute(getByAttrName(state.name), builder.getI64IntegerAttr(by));
  if (succeeded(parser.parseOptionalKeyword("masked"))) {
    state.addAttribute(getMaskedAttrName(state.name), builder.getUnitAttr());
    if (parser.parseLParen() ||
        parser.parseArgument(arguments.emplace_back()) || parser.parseRParen())
      return failure();
    arguments.back().type = maskType(builder, by);
  }
  if (succeeded(parser.parseOptionalKeyword("carry"))) {
    SmallVector<OpAsmParser::Argument> carried;
    SmallVector<OpAsmParser::UnresolvedOperand> initial;
    SmallVector<Type> types;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseAssignmentList(carried, initial) ||
        parser.parseColonTypeList(types) ||
        parser.resolveOperands(initial, types, loc, state.operands))
      return failure();
    for (auto [argument, type] : llvm::zip(carried, types))
      argument.type = type;
    llvm::append_range(arguments, carried);
    state.addTypes(types);
  }
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, arguments) ||
      parser.parseOptionalAttrDict(state.attributes))
    return failure();
  ensureTerminator(*body, builder, state.location);
  return success();
}

void ItemLoopOp::print(OpAsmPrinter &printer) {
  printer << " (" << getPositions() << ") from (";
  llvm::interleaveComma(getFrom(), printer);
  printer << ") to (";
  llvm::interleaveComma(getTo(), printer);
  printer << ") by " << getBy();
  if (Value mask = getMask())
    printer << " masked(" << mask << ')';
  if (!getInitial().empty()) {
    printer << " carry(";
    llvm::interleaveComma(
        llvm::zip(getCarried(), getInitial()), printer, [&](auto pair) {
          printer << std::get<0>(pair) << " = " << std::get<1>(pair);
        });
    printer << ") : ";
    llvm::interleaveComma(getInitial().getTypes(), printer);
  }
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/!getInitial().empty());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"from", "to", "by", "masked"});
}

LogicalResult ItemLoopOp::verifyRegions() {
  auto by = static_cast<int64_t>(getBy());
  // C1
  if (getFrom().empty() || getFrom().size() != getTo().size() || by < 1)
    return emitOpError() << "loops from " << getFrom().size() << " to "
                         << getTo().size() << " numbers by " << by;
  for (auto [first, last] : llvm::zip(getFrom(), getTo()))
    if (first < 0 || last < first)
      return emitOpError() << "loops from " << first << " to " << last;
  // C2
  int64_t line = getTo().back() - getFrom().back();
  if (line && line < by)
    return emitOpError() << "loops over a row of " << line << " by " << by;
  // C3
  SmallVector<Type> types(getFrom().size(),
                          Builder(getContext()).getIndexType());
  if (getMasked())
    types.push_back(maskType(Builder(getContext()), by));
  llvm::append_range(types, getInitial().getTypes());
  if (TypeRange(getBody().getArgumentTypes()) != TypeRange(types))
    return emitOpError() << "needs a region of " << types.size()
                         << " arguments: positions, mask and carried values";
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (yield.getValues().getTypes() != getInitial().getTypes() ||
      getResultTypes() != getInitial().getTypes())
    return emitOpError("yields types that differ from the carried types");
  // C4
  if ((*this)->getParentOfType<ItemLoopOp>())
    return emitOpError("must not be nested in another tile.loop");
  return success();
}

/// Verifies that an op that depends on a position is inside a walk.
static LogicalResult verifyInWalk(Operation *op) {
  if (op->getParentOfType<ItemLoopOp>())
    return success();
  return op->emitOpError("must be inside a tile.loop");
}

static LogicalResult verifyPlace(Operation *op, Value place,
                                 ValueRange positions) {
  if (failed(verifyInWalk(op)))
    return failure();
  if (!place.getDefiningOp<ItemBufferOp>())
    return op->emitOpError("needs a buffer defined by tile.buffer");
  size_t extents = cast<ItemBufferType>(place.getType()).getShape().size();
  if (extents != positions.size() && extents != positions.size() + 1)
    return op->emitOpError()
           << "has " << positions.size() << " positions for a buffer of "
           << extents << " extents";
  return success();
}

LogicalResult BufferWriteOp::verify() {
  return verifyPlace(*this, getPlace(), getPositions());
}

LogicalResult BufferReadOp::verify() {
  return verifyPlace(*this, getPlace(), getPositions());
}

LogicalResult AccumulateOp::verify() {
  if (!getSums().getDefiningOp<AccumulatorsOp>())
    return emitOpError("needs accumulators defined by tile.accumulators");
  return verifyInWalk(*this);
}

//===----------------------------------------------------------------------===//
// join, total
//===----------------------------------------------------------------------===//

static ParseResult parseNamedReduction(OpAsmParser &parser,
                                       NamedReductionAttr &joining) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<NamedReduction> value = symbolizeNamedReduction(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown reduction '" << keyword
                                 << "'; known are any, sum, largest, least";
  joining = NamedReductionAttr::get(parser.getContext(), *value);
  return success();
}

static void printNamedReduction(OpAsmPrinter &printer, Operation *,
                                NamedReductionAttr joining) {
  printer << stringifyNamedReduction(joining.getValue());
}

LogicalResult ItemReduceOp::verifyRegions() {
  // C1
  if (getValues().empty() || getNumResults() != getValues().size())
    return emitOpError() << "reduces " << getValues().size() << " values to "
                         << getNumResults();
  SmallVector<Type> scalars;
  bool same = getResultTypes() == getValues().getTypes();
  for (auto [from, to] : llvm::zip(getValues().getTypes(), getResultTypes())) {
    scalars.push_back(getElementTypeOrSelf(from));
    if (!same && to != scalars.back())
      return emitOpError() << "reduces " << from << " to " << to;
  }
  // C2
  SmallVector<Type> arguments(scalars);
  llvm::append_range(arguments, scalars);
  auto yield = cast<YieldOp>(getBody().front().getTerminator());
  if (TypeRange(getBody().getArgumentTypes()) != TypeRange(arguments) ||
      yield.getValues().getTypes() != TypeRange(scalars) ||
      getIdentities().getTypes() != TypeRange(scalars))
    return emitOpError(
        "needs a region that reduces two scalars of each value to one");
  // C3
  if ((*this)->getParentOfType<ItemLoopOp>())
    return emitOpError(
        "must not be inside a tile.loop; it reduces the results of loops");
  return success();
}

void ItemStoreOp::build(OpBuilder &builder, OperationState &state, bool once) {
  if (once)
    state.addAttribute(getOnceAttrName(state.name), builder.getUnitAttr());
  Region *body = state.addRegion();
  body->emplaceBlock();
  ensureTerminator(*body, builder, state.location);
}

LogicalResult TotalOp::verifyRegions() {
  auto by = static_cast<int64_t>(getBy());
  if (getSums().empty() || by < 1)
    return emitOpError()
           << "needs accumulators and a vector width of at least one column";
  SmallVector<Type> types = {Builder(getContext()).getIndexType()};
  int64_t columns = cast<AccumulatorsType>(getSums()[0].getType()).getColumns();
  for (Value value : getSums()) {
    auto sums = cast<AccumulatorsType>(value.getType());
    // C1
    if (sums.getColumns() != columns || columns % by)
      return emitOpError() << "has accumulators of " << columns << " and "
                           << sums.getColumns() << " columns, by " << by;
    types.push_back(by == 1 ? sums.getElement()
                            : VectorType::get({by}, sums.getElement()));
  }
  // C2
  if (TypeRange(getBody().getArgumentTypes()) != TypeRange(types))
    return emitOpError(
        "needs a region with a column and a vector per accumulator");
  return success();
}

#define GET_OP_CLASSES
#include "mpc/Dialect/Tile/IR/TileOps.cpp.inc"
