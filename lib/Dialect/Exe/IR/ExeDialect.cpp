//===- ExeDialect.cpp - the exe dialect -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration, the text form of buffers, and access to a program's parts.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

#include "mpc/Dialect/Exe/IR/ExeDialect.cpp.inc"

#include "mpc/Dialect/Exe/IR/ExeEnums.cpp.inc"
#include "mpc/Dialect/Exe/IR/ExeInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Exe/IR/ExeAttributes.cpp.inc"

//===----------------------------------------------------------------------===//
// Kinds: the bare keyword
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
// Buffers: (read @x, read arena[0 : 64], write @y)
//===----------------------------------------------------------------------===//

static ParseResult parseBuffer(OpAsmParser &parser, Attribute &buffer) {
  if (succeeded(parser.parseOptionalKeyword("arena"))) {
    int64_t offset, bytes;
    if (parser.parseLSquare() || parser.parseInteger(offset) ||
        parser.parseColon() || parser.parseInteger(bytes) ||
        parser.parseRSquare())
      return failure();
    buffer = ArenaAttr::get(parser.getContext(), offset, bytes);
    return success();
  }
  StringAttr name;
  if (parser.parseSymbolName(name))
    return failure();
  buffer = FlatSymbolRefAttr::get(name);
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
                      StringRef target, int64_t arenaBytes) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.setSymName(builder.getStringAttr(name));
  properties.setTarget(builder.getStringAttr(target));
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
