//===- QuantizedPanels.cpp - constants of quantized panels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizedPanels.h"

#include "RoundConstant.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

std::optional<std::vector<float>>
mpc::constantFloats(mpc::ConstantOp constant) {
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes))
    return std::nullopt;
  Type element = getElementTypeOrSelf(constant.getType());
  if (element.isF32()) {
    ArrayRef<float> numbers = bytes->as<float>();
    return std::vector<float>(numbers.begin(), numbers.end());
  }
  const llvm::fltSemantics &semantics =
      cast<FloatType>(element).getFloatSemantics();
  std::vector<float> numbers;
  numbers.reserve(bytes->as<uint16_t>().size());
  for (uint16_t bits : bytes->as<uint16_t>())
    numbers.push_back(
        element.isBF16()
            ? llvm::bit_cast<float>(uint32_t(bits) << 16)
            : llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToFloat());
  return numbers;
}

template <typename T>
static ArrayRef<char> bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

/// Bits of all numbers as bf16, exact; empty if one is not.
static std::vector<uint16_t> asBFloats(ArrayRef<float> numbers) {
  std::vector<uint16_t> halves;
  for (float number : numbers) {
    auto bits = llvm::bit_cast<uint32_t>(number);
    if (bits & 0xffff)
      return {};
    halves.push_back(bits >> 16);
  }
  return halves;
}

/// The same as f16.
static std::vector<uint16_t> asHalves(ArrayRef<float> numbers) {
  std::vector<uint16_t> halves;
  for (float number : numbers) {
    std::optional<uint16_t> bits = exactHalf(number);
    if (!bits)
      return {};
    halves.push_back(*bits);
  }
  return halves;
}

static Type byteType(MLIRContext *context) {
  return IntegerType::get(context, 8, IntegerType::Unsigned);
}

static Type elementOf(LosslessPanels::Kind kind, MLIRContext *context) {
  switch (kind) {
  case LosslessPanels::Kind::BFloat16:
    return BFloat16Type::get(context);
  case LosslessPanels::Kind::Float16:
    return Float16Type::get(context);
  case LosslessPanels::Kind::Int16:
    return IntegerType::get(context, 16);
  case LosslessPanels::Kind::Int8:
    return IntegerType::get(context, 8);
  case LosslessPanels::Kind::Float8:
  case LosslessPanels::Kind::UnsignedInt8:
  case LosslessPanels::Kind::Nibbles:
    return byteType(context);
  }
  llvm_unreachable("every kind has a type");
}

QuantizedPanels QuantizedPanels::make(mpc::ConstantOp constant,
                                      const LosslessPanels &form,
                                      ArrayRef<int64_t> panels) {
  OpBuilder builder(constant);
  MLIRContext *context = builder.getContext();
  std::string name = resourceName(constant);
  bool haveColumns = panels.size() == 3;
  int64_t count = panels[0], depth = panels[1],
          columns = haveColumns ? panels[2] : 1;
  QuantizedPanels stored;
  auto make = [&](int64_t lines, int64_t width, Type element,
                  ArrayRef<char> data, StringRef suffix) -> Value {
    SmallVector<int64_t> shape = {count, lines};
    if (haveColumns)
      shape.push_back(width);
    auto narrow = RankedTensorType::get(shape, element);
    stored.bytes += byteCount(narrow);
    return mpc::ConstantOp::create(
        builder, constant.getLoc(),
        makeConstant(narrow, data, (name + "." + suffix).str()));
  };
  stored.areNibbles = form.kind == LosslessPanels::Kind::Nibbles;
  stored.areFloats = form.kind == LosslessPanels::Kind::Float8;
  stored.commonZero = form.commonZero;
  stored.depth = form.depth;
  int64_t ofByte = form.depth * (stored.areNibbles ? 2 : 1);
  stored.values =
      make(depth / ofByte, form.depth * columns, elementOf(form.kind, context),
           bytesOf(form.values), "narrow");
  if (!form.isScaled())
    return stored;
  int64_t groups = depth / form.group;
  // The smallest float type in which all scales are exact.
  auto makeFloats = [&](ArrayRef<float> numbers, StringRef suffix) -> Value {
    if (std::vector<uint16_t> halves = asBFloats(numbers); !halves.empty())
      return make(groups, columns, builder.getBF16Type(), bytesOf(halves),
                  suffix);
    if (std::vector<uint16_t> halves = asHalves(numbers); !halves.empty())
      return make(groups, columns, builder.getF16Type(), bytesOf(halves),
                  suffix);
    return make(groups, columns, builder.getF32Type(),
                {reinterpret_cast<const char *>(numbers.data()),
                 numbers.size() * sizeof(float)},
                suffix);
  };
  stored.scale = makeFloats(form.scales, "scales");
  if (!form.offsets.empty())
    stored.offset = makeFloats(form.offsets, "offsets");
  if (!form.zeros.empty())
    stored.zero =
        make(groups, columns, byteType(context), bytesOf(form.zeros), "zeros");
  return stored;
}

Value QuantizedPanels::widen(OpBuilder &builder, Location loc,
                             Type element) const {
  return DequantizeOp::create(builder, loc, values, scale, zero, offset,
                              areNibbles, areFloats, commonZero, depth,
                              element);
}
