//===- ConstantData.cpp - bytes of constants ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

FailureOr<ConstantBytes> ConstantBytes::get(ElementsAttr attr) {
  ConstantBytes result;
  RankedTensorType type = dyn_cast<RankedTensorType>(attr.getType());
  if (!type || !type.hasStaticShape())
    return failure();
  int64_t bytes = byteCount(type);
  if (DenseResourceElementsAttr resource =
          dyn_cast<DenseResourceElementsAttr>(attr)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || int64_t(blob->getData().size()) != bytes)
      return failure();
    result.view = blob->getData();
    return result;
  }
  DenseIntOrFPElementsAttr dense = dyn_cast<DenseIntOrFPElementsAttr>(attr);
  if (!dense)
    return failure();
  bool boolean = type.getElementType().isInteger(1);
  if (!dense.isSplat() && !boolean) {
    result.view = dense.getRawData();
    return result;
  }
  constexpr int64_t kLargestCopy = int64_t(1) << 36;
  if (bytes > kLargestCopy)
    return failure();
  result.owned = std::make_shared<std::vector<char>>(bytes);
  if (boolean) {
    if (dense.isSplat())
      std::fill(result.owned->begin(), result.owned->end(),
                dense.getSplatValue<bool>());
    else
      for (auto [i, value] : llvm::enumerate(dense.getValues<bool>()))
        (*result.owned)[i] = value;
  } else {
    ArrayRef<char> element = dense.getRawData();
    for (int64_t i = 0; i < bytes; i += element.size())
      std::memcpy(result.owned->data() + i, element.data(), element.size());
  }
  result.view = *result.owned;
  return result;
}

/// Alignment of large constants, in bytes.
static constexpr size_t kAlignment = 64;

/// Returns true if all elements are bitwise equal.
static bool isUniform(ArrayRef<char> bytes, size_t elementBytes) {
  return bytes.size() >= elementBytes &&
         std::memcmp(bytes.data(), bytes.data() + elementBytes,
                     bytes.size() - elementBytes) == 0;
}

/// Returns `name`, or the first free of name_1, name_2, ...: MLIR's own linear
/// search is slow for thousands of constants with one name.
static std::string freeName(MLIRContext *context, StringRef name) {
  DialectResourceBlobManager &blobs =
      DenseResourceElementsHandle::getManagerInterface(context)
          .getBlobManager();
  auto numbered = [&](size_t number) {
    return (name + "_" + Twine(number)).str();
  };
  auto isTaken = [&](StringRef other) {
    return blobs.lookup(other) != nullptr;
  };
  if (!isTaken(name))
    return name.str();
  size_t last = 0, free = 1;
  for (; isTaken(numbered(free)); free *= 2)
    last = free;
  while (free - last > 1) {
    size_t middle = last + (free - last) / 2;
    (isTaken(numbered(middle)) ? last : free) = middle;
  }
  return numbered(free);
}

/// Returns the constant if it is a dense attribute, else null.
static ElementsAttr makeInline(RankedTensorType type, ArrayRef<char> bytes) {
  size_t elementBytes = bytesPerElement(type.getElementType());
  bool boolean = type.getElementType().isInteger(1);
  bool uniform = isUniform(bytes, elementBytes);
  if (!uniform && int64_t(bytes.size()) > kInlineConstantBytes)
    return {};
  if (boolean) {
    SmallVector<bool> values(
        llvm::map_range(bytes, [](char byte) { return byte != 0; }));
    if (uniform)
      return DenseElementsAttr::get(type, values.front());
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(
      type, uniform ? bytes.take_front(elementBytes) : bytes);
}

ElementsAttr mpc::makeConstant(RankedTensorType type, ArrayRef<char> bytes,
                               StringRef name) {
  if (ElementsAttr dense = makeInline(type, bytes))
    return dense;
  return DenseResourceElementsAttr::get(
      type, freeName(type.getContext(), name),
      HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, kAlignment,
                                                    /*dataIsMutable=*/false));
}

ElementsAttr mpc::makeConstant(RankedTensorType type, AsmResourceBlob bytes,
                               StringRef name) {
  if (ElementsAttr dense = makeInline(type, bytes.getData()))
    return dense;
  return DenseResourceElementsAttr::get(type, freeName(type.getContext(), name),
                                        std::move(bytes));
}

ElementsAttr mpc::makeConstant(RankedTensorType type, std::string bytes,
                               StringRef name) {
  auto kept = std::make_shared<std::string>(std::move(bytes));
  return makeConstant(type,
                      AsmResourceBlob(
                          ArrayRef(kept->data(), kept->size()),
                          alignof(std::max_align_t),
                          [kept](void *, size_t, size_t) {},
                          /*dataIsMutable=*/false),
                      name);
}

AsmResourceBlob mpc::allocateConstant(RankedTensorType type) {
  return HeapAsmResourceBlob::allocate(byteCount(type), kAlignment,
                                       /*dataIsMutable=*/true);
}

ElementsAttr mpc::makeSplat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  if (FloatType floatType = dyn_cast<FloatType>(element)) {
    APFloat rounded(value);
    bool losesInfo;
    rounded.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    return DenseElementsAttr::get(type, rounded);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt bits(64, static_cast<uint64_t>(static_cast<int64_t>(value)));
  return DenseElementsAttr::get(type, bits.trunc(width));
}

std::optional<double> mpc::splatValue(Attribute attr) {
  DenseIntOrFPElementsAttr dense =
      dyn_cast_if_present<DenseIntOrFPElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return std::nullopt;
  Type element = dense.getElementType();
  if (isa<FloatType>(element)) {
    APFloat value = dense.getSplatValue<APFloat>();
    bool losesInfo;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value.convertToDouble();
  }
  APInt value = dense.getSplatValue<APInt>();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return isUnsigned ? double(value.getZExtValue())
                    : double(value.getSExtValue());
}

std::optional<double> mpc::splatValue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

std::optional<double> mpc::constantSplat(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (isUnaryMovement(op) ||
                (isa<CastOp>(op) && isa<FloatType>(getElementTypeOrSelf(
                                        op->getOperand(0).getType()))))) {
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  return splatValue(value);
}

std::optional<SmallVector<int64_t>> mpc::integerElements(Attribute attr) {
  ElementsAttr elements = dyn_cast_if_present<ElementsAttr>(attr);
  IntegerType type = elements ? dyn_cast<IntegerType>(elements.getElementType())
                              : IntegerType();
  if (!type)
    return std::nullopt;
  FailureOr<ConstantBytes> data = ConstantBytes::get(elements);
  if (failed(data))
    return std::nullopt;
  size_t width = bytesPerElement(type);
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  SmallVector<int64_t> values;
  for (size_t i = 0; i + width <= data->bytes().size(); i += width) {
    uint64_t bits = 0;
    std::memcpy(&bits, data->bytes().data() + i, width);
    if (!isUnsigned && width < 8) {
      uint64_t sign = uint64_t(1) << (8 * width - 1);
      bits = (bits ^ sign) - sign;
    }
    values.push_back(static_cast<int64_t>(bits));
  }
  return values;
}
