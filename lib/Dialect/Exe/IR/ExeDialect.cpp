//===- ExeDialect.cpp - the exe dialect -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration, textual form of buffers, and accessors of a program.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

#include "mpc/Dialect/Exe/IR/ExeDialect.cpp.inc"

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

static ParseResult parseTargetName(AsmParser &parser, TargetInfo &info) {
  std::string name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseString(&name))
    return failure();
  std::optional<TargetInfo> parsed = TargetInfo::parse(name);
  if (!parsed)
    return parser.emitError(loc)
           << "target '" << name << "' " << TargetInfo::describeUnknown(name);
  info = *parsed;
  return success();
}

static void printTargetName(AsmPrinter &printer, const TargetInfo &info) {
  printer.printString(info.name());
}

#include "mpc/Dialect/Exe/IR/ExeEnums.cpp.inc"
#include "mpc/Dialect/Exe/IR/ExeInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Exe/IR/ExeAttributes.cpp.inc"

// Ops print only the target's name.
static ParseResult parseTarget(OpAsmParser &parser, TargetAttr &target) {
  TargetInfo info;
  if (parseTargetName(parser, info))
    return failure();
  target = TargetAttr::get(parser.getContext(), info);
  return success();
}

static void printTarget(OpAsmPrinter &printer, Operation *, TargetAttr target) {
  printTargetName(printer, target.getInfo());
}

LogicalResult ExeDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attribute) {
  if (attribute.getName() != kTargetAttr)
    return success();
  if (!isa<ModuleOp>(op))
    return op->emitOpError()
           << "has '" << kTargetAttr << "', which belongs to a module";
  if (!isa<TargetAttr>(attribute.getValue()))
    return op->emitOpError()
           << "'" << kTargetAttr << "' must be an #exe.target, found "
           << attribute.getValue();
  return success();
}

TargetInfo exe::targetOf(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto target = op->getAttrOfType<TargetAttr>(ExeDialect::kTargetAttr))
      return target.getInfo();
  return TargetInfo();
}

FailureOr<TargetInfo> exe::targetOf(Operation *op, StringRef option) {
  if (option.empty())
    return targetOf(op);
  if (std::optional<TargetInfo> named = TargetInfo::parse(option))
    return *named;
  return op->emitError() << "target '" << option << "' "
                         << TargetInfo::describeUnknown(option);
}

void exe::setTarget(Operation *module, const TargetInfo &target) {
  module->setAttr(ExeDialect::kTargetAttr,
                  TargetAttr::get(module->getContext(), target));
}

//===----------------------------------------------------------------------===//
// Kinds: the keyword only
//===----------------------------------------------------------------------===//

static ParseResult parseKind(OpAsmParser &parser, FusionKindAttr &kind) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<FusionKind> value = symbolizeFusionKind(keyword);
  if (!value)
    return parser.emitError(loc)
           << "unknown kind of kernel '" << keyword << "'";
  kind = FusionKindAttr::get(parser.getContext(), *value);
  return success();
}

static void printKind(OpAsmPrinter &printer, Operation *, FusionKindAttr kind) {
  printer << stringifyFusionKind(kind.getValue());
}

//===----------------------------------------------------------------------===//
// Buffers: (read @x, read arena[0 : 64], write @y[64 : 8])
//===----------------------------------------------------------------------===//

/// Parses the rest of a range after '['.
static ParseResult parseRange(OpAsmParser &parser, int64_t &offset,
                              int64_t &bytes) {
  return failure(parser.parseInteger(offset) || parser.parseColon() ||
                 parser.parseInteger(bytes) || parser.parseRSquare());
}

static ParseResult parseBuffer(OpAsmParser &parser, Attribute &buffer) {
  int64_t offset, bytes;
  if (succeeded(parser.parseOptionalKeyword("arena"))) {
    if (parser.parseLSquare() || parseRange(parser, offset, bytes))
      return failure();
    buffer = ArenaAttr::get(parser.getContext(), offset, bytes);
    return success();
  }
  StringAttr name;
  if (parser.parseSymbolName(name))
    return failure();
  auto whole = FlatSymbolRefAttr::get(name);
  buffer = whole;
  if (failed(parser.parseOptionalLSquare()))
    return success();
  if (parseRange(parser, offset, bytes))
    return failure();
  buffer = PartAttr::get(parser.getContext(), whole, offset, bytes);
  return success();
}

static ParseResult parseBuffers(OpAsmParser &parser, ArrayAttr &inputs,
                                ArrayAttr &outputs) {
  SmallVector<Attribute> read, written;
  auto parseOne = [&]() -> ParseResult {
    bool isRead = succeeded(parser.parseOptionalKeyword("read"));
    if (!isRead && parser.parseKeyword("write", " or 'read' before a buffer"))
      return failure();
    return parseBuffer(parser, (isRead ? read : written).emplace_back());
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  inputs = parser.getBuilder().getArrayAttr(read);
  outputs = parser.getBuilder().getArrayAttr(written);
  return success();
}

static void printBuffers(OpAsmPrinter &printer, Operation *, ArrayAttr inputs,
                         ArrayAttr outputs) {
  bool first = true;
  auto printAll = [&](StringRef access, ArrayAttr buffers) {
    for (Attribute buffer : buffers) {
      printer << (first ? "" : ", ") << access << ' ';
      first = false;
      if (auto arena = dyn_cast<ArenaAttr>(buffer))
        printer << "arena[" << arena.getOffset() << " : " << arena.getBytes()
                << ']';
      else if (auto part = dyn_cast<PartAttr>(buffer))
        printer << part.getWhole() << '[' << part.getOffset() << " : "
                << part.getBytes() << ']';
      else
        printer << buffer;
    }
  };
  printer << '(';
  printAll("read", inputs);
  printAll("write", outputs);
  printer << ')';
}

#define GET_OP_CLASSES
#include "mpc/Dialect/Exe/IR/ExeOps.cpp.inc"

void ExeDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpc/Dialect/Exe/IR/ExeAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "mpc/Dialect/Exe/IR/ExeOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                      const TargetInfo &target, int64_t arenaBytes) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.setSymName(builder.getStringAttr(name));
  properties.setTarget(TargetAttr::get(builder.getContext(), target));
  properties.setArenaBytes(builder.getI64IntegerAttr(arenaBytes));
  state.addRegion()->emplaceBlock();
}

template <typename OpTy>
static SmallVector<OpTy, 0> partsOf(ProgramOp program) {
  auto ops = program.getBody().getOps<OpTy>();
  return SmallVector<OpTy, 0>(ops.begin(), ops.end());
}
SmallVector<ArgumentOp, 0> ProgramOp::getProgramArguments() {
  return partsOf<ArgumentOp>(*this);
}
SmallVector<ResultOp, 0> ProgramOp::getProgramResults() {
  return partsOf<ResultOp>(*this);
}
SmallVector<exe::ConstantOp, 0> ProgramOp::getProgramConstants() {
  return partsOf<exe::ConstantOp>(*this);
}
SmallVector<LaunchOp, 0> ProgramOp::getLaunches() {
  return partsOf<LaunchOp>(*this);
}
SmallVector<StepOpInterface, 0> ProgramOp::getSteps() {
  return partsOf<StepOpInterface>(*this);
}
