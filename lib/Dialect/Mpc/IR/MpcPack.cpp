//===- MpcPack.cpp - packing and quantization ops -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpcAssembly.h"
#include "MpcShapes.h"

#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

LogicalResult PackOp::inferReturnTypes(MLIRContext *,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  if (failed(requireStatic(loc, name, adaptor.getOperands())))
    return failure();
  RankedTensorType input = tensor(adaptor.getInput());
  if (input.getRank() != 2) // C1
    return fail(loc, name, "needs a matrix, found ", input);
  PackedAttr packed = adaptor.getPacked();
  int64_t depth = input.getDimSize(adaptor.getTranspose()),
          width = input.getDimSize(!adaptor.getTranspose());
  types.push_back(RankedTensorType::get(
      {int64_t(llvm::divideCeil(width, packed.getColumns())),
       packed.getSteps(depth, depth), packed.getStepElements()},
      input.getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// Narrow floats
//===----------------------------------------------------------------------===//

const NarrowFloat *mpc::narrowFloatOf(Type type) {
  return TypeSwitch<Type, const NarrowFloat *>(type)
      .Case([](Float8E4M3FNType) { return &kFloat8E4M3FN; })
      .Case([](Float8E5M2Type) { return &kFloat8E5M2; })
      .Case([](Float8E4M3FNUZType) { return &kFloat8E4M3FNUZ; })
      .Case([](Float8E5M2FNUZType) { return &kFloat8E5M2FNUZ; })
      .Case([](Float8E8M0FNUType) { return &kFloat8E8M0FNU; })
      .Case([](Float6E2M3FNType) { return &kFloat6E2M3FN; })
      .Case([](Float6E3M2FNType) { return &kFloat6E3M2FN; })
      .Case([](Float4E2M1FNType) { return &kFloat4E2M1FN; })
      .Default([](Type) { return nullptr; });
}

static LogicalResult verifyFormat(Operation *op, Type format) { // C1
  if (narrowFloatOf(format))
    return success();
  return op->emitOpError()
         << "has the format " << format
         << "; use f8E4M3FN, f8E5M2, f8E4M3FNUZ, f8E5M2FNUZ, f8E8M0FNU, "
            "f6E2M3FN, f6E3M2FN or f4E2M1FN";
}

ParseResult mpc::parseRounding(OpAsmParser &parser, BoolAttr &roundUp) {
  if (failed(parser.parseOptionalKeyword("rounding")))
    return success();
  StringRef direction;
  if (parser.parseLParen())
    return failure();
  if (parser.parseOptionalKeyword(&direction, {"up", "down"}))
    return parser.emitError(parser.getCurrentLocation(),
                            "expected 'up' or 'down'");
  roundUp = parser.getBuilder().getBoolAttr(direction == "up");
  return parser.parseRParen();
}

void mpc::printRounding(OpAsmPrinter &printer, Operation *, BoolAttr roundUp) {
  if (roundUp)
    printer << "rounding(" << (roundUp.getValue() ? "up" : "down") << ")";
}

void EncodeFloatOp::build(OpBuilder &builder, OperationState &state,
                          Value input, Type format, bool saturate,
                          Value random) {
  Type code = builder.getIntegerType(8, /*isSigned=*/false);
  build(builder, state, cast<RankedTensorType>(input.getType()).clone(code),
        input, random, format, saturate, /*round_up=*/BoolAttr());
}

LogicalResult EncodeFloatOp::verify() {
  if (failed(verifyFormat(*this, getFormat())))
    return failure();
  if (getRoundUp() && !isa<Float8E8M0FNUType>(getFormat())) // C2
    return emitOpError() << "rounds up or down to " << getFormat()
                         << "; only f8E8M0FNU has a direction";
  if (getRoundUp() && getRandom()) // C2
    return emitOpError("rounds at random and in one direction");
  if (getRandom() && getElementTypeOrSelf(getInput().getType()).isF64()) // C3
    return emitOpError("rounds f64 at random; cast the input to f32");
  return success();
}

void DecodeFloatOp::build(OpBuilder &builder, OperationState &state,
                          Value input, Type format, Type element) {
  build(builder, state, cast<RankedTensorType>(input.getType()).clone(element),
        input, format);
}

LogicalResult DecodeFloatOp::verify() {
  if (failed(verifyFormat(*this, getFormat())))
    return failure();
  if (isa<Float8E8M0FNUType>(getFormat()) &&
      getElementTypeOrSelf(getType()).isF16()) // C2
    return emitOpError("decodes f8E8M0FNU to f16, whose range is smaller");
  Type element = getElementTypeOrSelf(getType());
  if (element.getIntOrFloatBitWidth() == 8 && element != getFormat()) // C3
    return emitOpError() << "decodes " << getFormat() << " to " << element
                         << "; a result of 8 bits has the same format";
  return success();
}

//===----------------------------------------------------------------------===//
// Dequantize
//===----------------------------------------------------------------------===//

/// Returns the shape of the panels stored as `values`.
static SmallVector<int64_t> panelsOf(RankedTensorType values, bool nibbles,
                                     int64_t depth) {
  SmallVector<int64_t> shape(values.getShape());
  shape[1] *= depth * (nibbles ? 2 : 1);
  if (shape.size() == 3)
    shape[2] /= depth;
  return shape;
}

void DequantizeOp::build(OpBuilder &builder, OperationState &state,
                         Value values, Value scale, Value zero, Value offset,
                         bool nibbles, bool float8, int64_t commonZero,
                         int64_t depth, Type element) {
  auto stored = cast<RankedTensorType>(values.getType());
  auto result =
      RankedTensorType::get(panelsOf(stored, nibbles, depth), element);
  build(builder, state, result, values, scale, zero, offset, nibbles, float8,
        commonZero, depth);
}

int64_t DequantizeOp::getGroup() {
  int64_t depth = getResult().getType().getDimSize(1);
  Value scale = getScale();
  int64_t groups =
      scale ? cast<RankedTensorType>(scale.getType()).getDimSize(1) : 1;
  return groups ? depth / groups : depth;
}

LogicalResult DequantizeOp::verify() {
  auto values = cast<RankedTensorType>(getValues().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  int64_t depth = getDepth();
  Type widened = result.getElementType();
  int64_t rank = result.getRank();
  bool areBytes = values.getElementType().isInteger(8);
  if ((rank != 2 && rank != 3) || values.getRank() != rank ||
      !(widened.isF32() || ((areBytes || rank == 2) &&
                            (widened.isBF16() || widened.isF16())))) // C5
    return emitOpError() << "converts panels of rank 3 to f32, or panels of "
                            "bytes or of rank 2 to 16 bits, found "
                         << values << " and " << result;
  if ((depth != 1 && (depth != 4 || rank == 2)) ||
      (depth > 1 && (!getScale() || getFloat8() || getOffset() ||
                     !values.getElementType().isInteger(8)))) // C4
    return emitOpError() << "has a depth of " << depth
                         << "; it must be 1, or 4 for 8-bit integers";
  SmallVector<int64_t> shape = panelsOf(values, getNibbles(), depth);
  if ((rank == 3 && values.getDimSize(2) % depth) ||
      result.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "makes " << result << " of " << values
                         << ", which holds " << shape[0] << " panels of "
                         << shape[1] << " positions of "
                         << (rank == 3 ? shape[2] : 1) << " columns";
  Type element = values.getElementType();
  bool isInteger = element.isInteger(8) || element.isSignlessInteger(16);
  if (!isInteger && !element.isBF16() && !element.isF16()) // C1
    return emitOpError() << "takes bf16, f16, i16 or 8-bit integers, found "
                         << element;
  if (getNibbles() && !element.isUnsignedInteger(8)) // C1
    return emitOpError() << "takes int4 packed in ui8, found " << element;
  if (getFloat8() && getNibbles()) // C1
    return emitOpError("takes int4 or 8-bit float codes, not both");
  if (getFloat8() && !element.isUnsignedInteger(8)) // C1
    return emitOpError() << "takes 8-bit float codes in ui8, found " << element;
  if (isInteger != bool(getScale())) // C1
    return emitOpError() << (isInteger ? "needs a scale for "
                                       : "takes no scale for ")
                         << element;
  if ((getZero() || getCommonZero() || getOffset()) &&
      (!element.isInteger(8) || getFloat8())) // C1
    return emitOpError() << "takes no zero point or offset for "
                         << (getFloat8() ? "8-bit float codes in " : "")
                         << element;
  if (getZero() && getCommonZero()) // C3
    return emitOpError() << "has a zero point for each scale and "
                         << getCommonZero() << " for all";
  if (getOffset() && (getZero() || getCommonZero())) // C3
    return emitOpError("has zero points and an offset");
  if (!getScale())
    return success();
  auto scale = cast<RankedTensorType>(getScale().getType());
  int64_t groups = scale.getRank() == rank ? scale.getDimSize(1) : 0;
  if (groups < 1 || scale.getDimSize(0) != shape[0] ||
      scale.getShape().drop_front(2) !=
          ArrayRef<int64_t>(shape).drop_front(2) ||
      shape[1] % groups ||
      shape[1] / groups % (depth * (getNibbles() ? 2 : 1))) // C2
    return emitOpError() << "has scales " << scale << " for " << result
                         << ", but they must divide the positions into groups "
                            "of whole bytes and steps";
  if (Value zero = getZero()) // C2
    if (zero.getType() !=
        scale.clone(IntegerType::get(getContext(), 8, IntegerType::Unsigned)))
      return emitOpError() << "has zero points " << zero.getType()
                           << " for scales " << scale;
  if (Value offset = getOffset()) // C2
    if (cast<RankedTensorType>(offset.getType()).getShape() != scale.getShape())
      return emitOpError() << "has offsets " << offset.getType()
                           << " for scales " << scale;
  return success();
}
