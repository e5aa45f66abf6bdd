//===- Tensor.cpp - tensors of the reference interpreter ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Reference/Tensor.h"

#include "Evaluation.h"
#include "RoundingKernels.h"
#include "StridedLoop.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"

#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

/// Infinities stay in formats that have them; other values saturate.
static uint8_t toCode(const NarrowFloat &format, double value) {
  return format.encode(value, /*saturate=*/!format.hasInfinity());
}

double mpc::reference::roundTo(double value, Type floatType) {
  if (const NarrowFloat *format = narrowFloatOf(floatType))
    return format->decode(toCode(*format, value));
  return withRounding(Rounding::Declared, floatType,
                      [&](auto round) { return round(value); });
}

double mpc::reference::roundToTf32(double value) {
  auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow))
    return narrow;
  uint32_t bits = llvm::bit_cast<uint32_t>(narrow);
  bits = (bits + 0x1000u) & ~0x1fffu;
  return llvm::bit_cast<float>(bits);
}

int64_t mpc::reference::wrapTo(int64_t value, Type integerType) {
  return IntegerKind(integerType).wrap(value);
}

//===----------------------------------------------------------------------===//
// Encodings of the 16-bit formats
//===----------------------------------------------------------------------===//

static uint16_t encodeBF16(double rounded) {
  uint32_t bits = llvm::bit_cast<uint32_t>(static_cast<float>(rounded));
  if (std::isnan(rounded))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>(bits >> 16);
}

static double decodeBF16(uint16_t bits) {
  return llvm::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

static uint16_t encodeF16(double rounded) {
  uint16_t sign = std::signbit(rounded) ? 0x8000 : 0;
  double magnitude = std::fabs(rounded);
  if (std::isnan(rounded))
    return sign | 0x7e00;
  if (std::isinf(rounded))
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  uint64_t bits = llvm::bit_cast<uint64_t>(magnitude);
  uint64_t exponent = (bits >> 52) - 1023 + 15;
  return sign |
         static_cast<uint16_t>((exponent << 10) | ((bits >> 42) & 0x3ff));
}

static double decodeF16(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  double mantissa = bits & 0x3ff;
  double magnitude;
  if (exponent == 0)
    magnitude = mantissa * 0x1p-24;
  else if (exponent == 31)
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  else
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

//===----------------------------------------------------------------------===//
// Tensor
//===----------------------------------------------------------------------===//

/// Calls `fn` with a value of the C++ type that stores `elementType` in memory;
/// not for 16-bit floats, which have no plain conversions.
template <typename Fn> static void withStorage(Type elementType, Fn fn) {
  if (elementType.isF32())
    return fn(float());
  if (elementType.isF64())
    return fn(double());
  IntegerKind kind(elementType);
  switch (kind.width) {
  case 1:
    return fn(uint8_t());
  case 8:
    return kind.isUnsigned ? fn(uint8_t()) : fn(int8_t());
  case 16:
    return kind.isUnsigned ? fn(uint16_t()) : fn(int16_t());
  case 32:
    return kind.isUnsigned ? fn(uint32_t()) : fn(int32_t());
  default:
    return fn(int64_t());
  }
}

static bool isMpcElement(Type type) {
  if (type.isF16() || type.isBF16() || type.isF32() || type.isF64() ||
      isa<Float8E4M3FNType, Float8E5M2Type>(type))
    return true;
  auto integer = dyn_cast<IntegerType>(type);
  return integer &&
         llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
}

Tensor::Tensor(RankedTensorType type)
    : type(type), count(elementCount(type)), floatData(isFloat() ? count : 0),
      intData(isFloat() ? 0 : count) {}

FailureOr<Tensor> Tensor::fromAttr(ElementsAttr attr) {
  auto type = dyn_cast<RankedTensorType>(attr.getType());
  if (!type || !type.hasStaticShape() || !isMpcElement(type.getElementType()))
    return failure();
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
  if (failed(bytes) ||
      static_cast<int64_t>(bytes->bytes().size()) != byteCount(type))
    return failure();
  return fromBytes(type, bytes->bytes().data());
}

Tensor Tensor::fromBytes(RankedTensorType type, const void *data) {
  Tensor tensor(type);
  if (tensor.count == 0)
    return tensor;
  Type elementType = type.getElementType();
  const char *source = static_cast<const char *>(data);
  if (elementType.isF16() || elementType.isBF16()) {
    bool isHalf = elementType.isF16();
    for (double &value : tensor.floats()) {
      uint16_t bits;
      std::memcpy(&bits, source, sizeof(bits));
      source += sizeof(bits);
      value = isHalf ? decodeF16(bits) : decodeBF16(bits);
    }
    return tensor;
  }
  if (const NarrowFloat *format = narrowFloatOf(elementType)) {
    for (double &value : tensor.floats())
      value = format->decode(uint8_t(*source++));
    return tensor;
  }
  bool isBoolean = elementType.isInteger(1);
  withStorage(elementType, [&](auto storage) {
    auto read = [&](auto target) {
      for (auto &value : target) {
        std::memcpy(&storage, source, sizeof(storage));
        source += sizeof(storage);
        // Promotion keeps the sign of an int8.
        value = +storage;
        if (isBoolean)
          value = value != 0;
      }
    };
    if (tensor.isFloat())
      read(tensor.floats());
    else
      read(tensor.ints());
  });
  return tensor;
}

void Tensor::toBytes(void *data) const {
  Type elementType = getElementType();
  char *target = static_cast<char *>(data);
  if (elementType.isF16() || elementType.isBF16()) {
    bool isHalf = elementType.isF16();
    for (double value : floats()) {
      uint16_t bits = isHalf ? encodeF16(RoundF16()(value))
                             : encodeBF16(RoundBF16()(value));
      std::memcpy(target, &bits, sizeof(bits));
      target += sizeof(bits);
    }
    return;
  }
  if (const NarrowFloat *format = narrowFloatOf(elementType)) {
    for (double value : floats())
      *target++ = char(toCode(*format, value));
    return;
  }
  withStorage(elementType, [&](auto storage) {
    using Storage = decltype(storage);
    auto write = [&](auto source) {
      for (auto value : source) {
        storage = static_cast<Storage>(value);
        std::memcpy(target, &storage, sizeof(storage));
        target += sizeof(storage);
      }
    };
    if (isFloat())
      write(floats());
    else
      write(ints());
  });
}

ElementsAttr Tensor::toAttr(StringRef name) const {
  AsmResourceBlob bytes = allocateConstant(type);
  toBytes(bytes.getMutableData().data());
  return makeConstant(type, std::move(bytes), name);
}

Tensor Tensor::withType(RankedTensorType newType) const & {
  Tensor copy = *this;
  copy.type = newType;
  return copy;
}

Tensor Tensor::withType(RankedTensorType newType) && {
  Tensor moved = std::move(*this);
  moved.type = newType;
  return moved;
}

void Tensor::roundToType() {
  if (!isFloat() || getElementType().isF64())
    return;
  withRounding(Rounding::Declared, getElementType(), [&](auto round) {
    for (double &value : floats())
      value = round(value);
  });
}

void Tensor::shareIfEqual(const Tensor &other) {
  auto isEqual = [](auto own, auto others) {
    return own.size() == others.size() &&
           std::memcmp(own.data(), others.data(),
                       own.size() * sizeof(own.front())) == 0;
  };
  if (type == other.type && isEqual(floatData.get(), other.floatData.get()) &&
      isEqual(intData.get(), other.intData.get()))
    *this = other;
}

//===----------------------------------------------------------------------===//
// Strides
//===----------------------------------------------------------------------===//

SmallVector<int64_t> mpc::reference::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

SmallVector<int64_t>
mpc::reference::broadcastStrides(ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> target) {
  SmallVector<int64_t> own = rowMajorStrides(shape);
  SmallVector<int64_t> strides(target.size(), 0);
  size_t missing = target.size() - shape.size();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    strides[missing + dim] = shape[dim] == 1 ? 0 : own[dim];
  return strides;
}

void mpc::reference::copyStrided(const Tensor &source, int64_t base,
                                 ArrayRef<int64_t> strides, Tensor &target) {
  StridedLoop<1> loop(target.getShape(), {SmallVector<int64_t>(strides)});
  visitElements(source, target, [&](auto from, auto to) {
    loop.run([&](int64_t position, const std::array<int64_t, 1> &offsets) {
      to[position] = from[base + offsets[0]];
    });
  });
}
