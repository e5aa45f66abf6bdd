//===- NarrowStorageType.cpp - sub-byte and 8-bit float types -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowStorageType.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include "Importer.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

const NarrowStorageType *mpc::onnx::smallTypeOf(int32_t dataType) {
  static const NarrowStorageType e4m3{8, true, &mpc::kFloat8E4M3FN},
      e4m3Fnuz{8, true, &mpc::kFloat8E4M3FNUZ},
      e5m2{8, true, &mpc::kFloat8E5M2},
      e5m2Fnuz{8, true, &mpc::kFloat8E5M2FNUZ},
      e2m1{4, true, &mpc::kFloat4E2M1FN}, e8m0{8, false, &mpc::kFloat8E8M0FNU},
      uint4{4, false}, int4{4, true}, uint2{2, false}, int2{2, true};
  switch (dataType) {
  case onnx::kFloat8E4M3FN:
    return &e4m3;
  case onnx::kFloat8E4M3FNUZ:
    return &e4m3Fnuz;
  case onnx::kFloat8E5M2:
    return &e5m2;
  case onnx::kFloat8E5M2FNUZ:
    return &e5m2Fnuz;
  case kFloat4E2M1:
    return &e2m1;
  case kFloat8E8M0:
    return &e8m0;
  case kUint4:
    return &uint4;
  case kInt4:
    return &int4;
  case kUint2:
    return &uint2;
  case kInt2:
    return &int2;
  default:
    return nullptr;
  }
}

/// Returns the MLIR type of a small float.
static Type formatOf(int32_t dataType, MLIRContext *context) {
  switch (dataType) {
  case onnx::kFloat8E4M3FN:
    return Float8E4M3FNType::get(context);
  case onnx::kFloat8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case onnx::kFloat8E5M2:
    return Float8E5M2Type::get(context);
  case onnx::kFloat8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case kFloat8E8M0:
    return Float8E8M0FNUType::get(context);
  default:
    return Float4E2M1FNType::get(context);
  }
}

Type mpc::onnx::storageTypeOf(int32_t dataType, MLIRContext *context) {
  const NarrowStorageType *small = smallTypeOf(dataType);
  if (!small)
    return elementTypeOf(dataType, context);
  bool isSigned = !small->format && small->isSigned;
  return IntegerType::get(
      context, 8, isSigned ? IntegerType::Signless : IntegerType::Unsigned);
}

/// Creates `name`, a conversion between codes and numbers of `dataType`.
static Value convert(NodeImport &n, StringRef name, Value value, Type element,
                     int32_t dataType,
                     SmallVector<NamedAttribute> attributes = {}) {
  Type format = formatOf(dataType, n.builder.getContext());
  attributes.push_back(n.attr("format", TypeAttr::get(format)));
  RankedTensorType type = n.tensorType(n.shape(value), element);
  Operation *op = type ? n.typed(name, type, value, attributes) : nullptr;
  return op ? op->getResult(0) : Value();
}

Value mpc::onnx::decodeNarrow(NodeImport &n, Value value, Type element) {
  if (n.failed() || !value)
    return nullptr;
  int32_t dataType = n.narrowStorageType(value);
  if (!smallTypeOf(dataType)->format)
    return n.cast(n.carried(value), element);
  // Not every format fits into f16.
  Type read = isa<FloatType>(element) && !element.isF16()
                  ? element
                  : Type(n.builder.getF32Type());
  return n.cast(
      convert(n, DecodeFloatOp::getOperationName(), value, read, dataType),
      element);
}

/// Encodes `value` as the small float type `dataType`.
static Value encodeFloat(NodeImport &n, Value value, int32_t dataType,
                         const NarrowRounding &rounding) {
  const NarrowFloat &format = *smallTypeOf(dataType)->format;
  if (auto integer = dyn_cast_if_present<IntegerType>(n.element(value)))
    // Integers of 16 bits are exact in f32.
    value =
        n.cast(value, integer.getWidth() <= 16 ? Type(n.builder.getF32Type())
                                               : n.builder.getF64Type());
  if (rounding.saturate && !rounding.saturateInfinity && format.hasNaN()) {
    Value isInfinite =
        n.op<IsInfOp>(value, {n.attr("positive", n.builder.getBoolAttr(true)),
                              n.attr("negative", n.builder.getBoolAttr(true))});
    value = n.select(
        isInfinite,
        n.scalar(std::numeric_limits<double>::quiet_NaN(), n.element(value)),
        value);
  }
  SmallVector<NamedAttribute> attributes;
  // Without NaN the format saturates anyway, and NaN becomes minus zero.
  if (rounding.saturate && format.hasNaN())
    attributes.push_back(n.unit("saturate"));
  if (!format.hasZero() && rounding.powers != "nearest")
    attributes.push_back(
        n.attr("round_up", n.builder.getBoolAttr(rounding.powers == "up")));
  Type code = storageTypeOf(dataType, n.builder.getContext());
  Value codes = convert(n, EncodeFloatOp::getOperationName(), value, code,
                        dataType, attributes);
  if (!format.hasInfinity())
    return codes;
  // Of several NaNs ONNX has the first quiet one, mpc the last.
  Value nan = n.scalar(double(format.nanCode() - 1), code);
  return n.select(n.op<IsNanOp>(value), nan, codes);
}

Value mpc::onnx::encodeNarrow(NodeImport &n, Value value, int32_t dataType,
                              const NarrowRounding &rounding) {
  if (n.failed() || !value)
    return nullptr;
  const NarrowStorageType &type = *smallTypeOf(dataType);
  if (type.format)
    return n.withNarrowType(encodeFloat(n, value, dataType, rounding),
                            dataType);
  Type i32 = n.builder.getI32Type();
  double span = std::exp2(type.bits);
  Value bytes = n.op<AndOp>({n.cast(value, i32), n.scalar(span - 1, i32)});
  // Sign extension: the sign bit has negative weight.
  if (type.isSigned) {
    Value sign = n.scalar(span / 2, i32);
    bytes = n.op<SubOp>({n.op<XorOp>({bytes, sign}), sign});
  }
  Type storage = storageTypeOf(dataType, n.builder.getContext());
  return n.withNarrowType(n.cast(bytes, storage), dataType);
}
