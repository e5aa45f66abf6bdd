//===- BitCast.cpp - BitCast operator -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowStorageType.h"
#include "NodeImport.h"

#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;
using llvm::APFloat;

/// Convert `number` to its bits in `type`, and back.
static uint64_t bitsOf(double number, FloatType type) {
  bool lost = false;
  APFloat value(number);
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  return value.bitcastToAPInt().getZExtValue();
}
static double numberOf(uint64_t bits, FloatType type) {
  bool lost = false;
  llvm::APInt pattern(type.getWidth(), bits, /*isSigned=*/false,
                      /*implicitTrunc=*/true);
  APFloat value(type.getFloatSemantics(), pattern);
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

/// Bit-casts constants between float and integer types: mpc values have no bit
/// representation, so they must be known.
static LogicalResult recastKnown(NodeImport &n, Value x, Type to) {
  SmallVector<double> floats;
  SmallVector<int64_t> integers;
  auto from = dyn_cast<FloatType>(n.element(x));
  if (from)
    floats = n.constantFloatValues(
        0, "the input, whose floats are reinterpreted as bits,");
  else
    integers = n.constantIntValues(
        0, "the input, whose bits are reinterpreted as floats,");
  RankedTensorType type = n.tensorType(n.shape(x), to);
  if (!type)
    return failure();
  reference::Tensor result(type);
  for (int64_t i = 0, e = elementCount(x); i < e; ++i) {
    uint64_t bits = from ? bitsOf(floats[i], from) : uint64_t(integers[i]);
    if (auto number = dyn_cast<FloatType>(to)) {
      result.floats()[i] = numberOf(bits, number);
      continue;
    }
    unsigned unused = 64 - to.getIntOrFloatBitWidth();
    result.ints()[i] = to.isUnsignedInteger()
                           ? int64_t(bits << unused >> unused)
                           : int64_t(bits << unused) >> unused;
  }
  return n.result(n.constant(result.toAttr()));
}

static LogicalResult convertBitCast(NodeImport &n) {
  Value x = n.in(0);
  auto dataType = int32_t(n.intAttr("to", 0));
  if (n.failed())
    return failure();
  int32_t small = n.narrowStorageType(x);
  Type from = n.element(x),
       to = storageTypeOf(dataType, n.builder.getContext());
  if (!to)
    return n.error() << "attribute 'to' is " << dataTypeName(dataType)
                     << ", which mpc does not support";
  auto bits = [](int32_t small, Type type) {
    const NarrowStorageType *known = smallTypeOf(small);
    return known               ? unsigned(known->bits)
           : type.isInteger(1) ? 8 // ONNX booleans are bytes
                               : type.getIntOrFloatBitWidth();
  };
  const NarrowStorageType *target = smallTypeOf(dataType);
  unsigned fromBits = bits(small, from), toBits = bits(dataType, to);
  if (fromBits != toBits)
    return n.error() << "elements of " << fromBits
                     << " bits cannot be reinterpreted "
                     << "as elements of " << toBits << " bits";
  if (small == dataType || (small == 0 && !target && from == to))
    return n.result(x);
  if (fromBits < 8)
    return n.error() << "elements of " << fromBits << " bits are not supported";
  // Small floats are already stored as their bits.
  if (small != 0 || target) {
    Value bytes = small != 0 ? n.cast(n.carried(x), to) : n.cast(x, to);
    return n.result(target ? n.withNarrowType(bytes, dataType) : bytes);
  }
  bool isFloat = isa<FloatType>(from) || isa<FloatType>(to);
  return isFloat ? recastKnown(n, x, to) : n.result(n.cast(x, to));
}

OpFamily mpc::onnx::bitCastOps() {
  static const OpEntry entries[] = {
      {"BitCast 26 1 to", convertBitCast},
  };
  return entries;
}
