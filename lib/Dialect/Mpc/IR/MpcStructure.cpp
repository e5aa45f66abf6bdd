//===- MpcStructure.cpp - constant, fusion, cast --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Structural ops: compile-time constants, fused regions, type conversions.
//
//===----------------------------------------------------------------------===//

#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

LogicalResult ConstantOp::verify() {
  RankedTensorType type = tensor(getResult());
  if (!type.hasStaticShape())
    return emitOpError() << "needs a static shape, found " << type;
  int64_t bytes = byteCount(type);
  constexpr int64_t kLargest = int64_t(1) << 40;
  bool splat = isa<SplatElementsAttr>(getValue());
  if (!splat && bytes > kLargest)
    return emitOpError() << "takes " << bytes
                         << " bytes, more than the limit of " << kLargest;
  if (splat && elementCount(type) > kLargest)
    return emitOpError() << "has " << elementCount(type)
                         << " elements, more than the limit of " << kLargest;
  DenseResourceElementsAttr resource =
      dyn_cast<DenseResourceElementsAttr>(getValue());
  if (!resource)
    return success();
  int64_t held = resourceBytes(resource);
  if (held < 0) // C1
    return emitOpError() << "has no data for resource '"
                         << resource.getRawHandle().getKey() << "'";
  if (held != bytes)
    return emitOpError() << "resource '" << resource.getRawHandle().getKey()
                         << "' holds " << held << " bytes, " << type
                         << " needs " << bytes;
  return success();
}

//===----------------------------------------------------------------------===//
// fusion
//===----------------------------------------------------------------------===//

int64_t FusionOp::getFlops() {
  int64_t flops = 0;
  for (Operation &op : getBody().front())
    if (CostOpInterface cost = dyn_cast<CostOpInterface>(op))
      flops += cost.getFlops();
  return flops;
}

LogicalResult FusionOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes()) // C1
    return emitOpError() << "has block arguments that differ from its operands";
  YieldOp yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes()) // C2
    return emitOpError() << "yields types that differ from its results";
  return success();
}

// mpc.fusion kind(row) name("x") (%a = %v : type, ...) -> (types) attributes
// {...} { ... }
void FusionOp::print(OpAsmPrinter &printer) {
  printer << " kind(" << stringifyFusionKind(getKind()) << ") name("
          << getNameAttr() << ") (";
  llvm::interleaveComma(llvm::zip_equal(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          auto [argument, operand] = pair;
                          printer << argument << " = " << operand << " : "
                                  << operand.getType();
                        });
  printer << ")";
  printer.printArrowTypeList(getOutputs().getTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"kind", "name"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult FusionOp::parse(OpAsmParser &parser, OperationState &state) {
  StringRef kindText;
  StringAttr name;
  SMLoc kindLoc;
  if (parser.parseKeyword("kind") || parser.parseLParen() ||
      parser.getCurrentLocation(&kindLoc) || parser.parseKeyword(&kindText) ||
      parser.parseRParen() || parser.parseKeyword("name") ||
      parser.parseLParen() || parser.parseAttribute(name) ||
      parser.parseRParen())
    return failure();
  std::optional<FusionKind> kind = symbolizeFusionKind(kindText);
  if (!kind)
    return parser.emitError(kindLoc)
           << "unknown fusion kind '" << kindText << "'";
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parseBinding = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    return failure(parser.parseArgument(argument) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(argument.type));
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parseBinding) ||
      parser.parseOptionalArrowTypeList(state.types) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  for (auto [operand, argument] : llvm::zip_equal(operands, arguments))
    if (parser.resolveOperand(operand, argument.type, state.operands))
      return failure();
  state.getOrAddProperties<Properties>().kind =
      FusionKindAttr::get(parser.getContext(), *kind);
  state.getOrAddProperties<Properties>().name = name;
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), state.location);
  return success();
}

/// Implicit terminator of a fusion without results.
void YieldOp::build(OpBuilder &, OperationState &) {}
