//===- TensorType.cpp - element types and shapes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/TensorType.h"

#include <array>

using namespace mpc;

namespace {

struct ElementFacts {
  ElementType type;
  std::string_view name;
  int64_t bytes;
};

/// In the order of the enumeration.
constexpr std::array<ElementFacts, 15> kElements{{
    {ElementType::I1, "i1", 1},
    {ElementType::I8, "i8", 1},
    {ElementType::I16, "i16", 2},
    {ElementType::I32, "i32", 4},
    {ElementType::I64, "i64", 8},
    {ElementType::UI8, "ui8", 1},
    {ElementType::UI16, "ui16", 2},
    {ElementType::UI32, "ui32", 4},
    {ElementType::UI64, "ui64", 8},
    {ElementType::F16, "f16", 2},
    {ElementType::BF16, "bf16", 2},
    {ElementType::F32, "f32", 4},
    {ElementType::F64, "f64", 8},
    {ElementType::F8E4M3FN, "f8E4M3FN", 1},
    {ElementType::F8E5M2, "f8E5M2", 1},
}};

const ElementFacts &facts(ElementType type) {
  return kElements[static_cast<size_t>(type)];
}

} // namespace

std::string_view mpc::elementTypeName(ElementType type) {
  return facts(type).name;
}

std::optional<ElementType> mpc::parseElementType(std::string_view name) {
  for (const ElementFacts &entry : kElements)
    if (entry.name == name)
      return entry.type;
  return std::nullopt;
}

int64_t mpc::elementBytes(ElementType type) { return facts(type).bytes; }

bool mpc::isFloat(ElementType type) { return type >= ElementType::F16; }

bool mpc::isFloat8(ElementType type) { return type >= ElementType::F8E4M3FN; }

std::optional<int64_t> TensorType::elementCount() const {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0)
      return std::nullopt;
    if (__builtin_mul_overflow(count, extent, &count))
      return std::nullopt;
  }
  return count;
}

std::optional<int64_t> TensorType::byteCount() const {
  std::optional<int64_t> count = elementCount();
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, elementBytes(element), &bytes))
    return std::nullopt;
  return bytes;
}

std::string mpc::shapeToString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i)
      text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::string TensorType::toString() const {
  return std::string(elementTypeName(element)) + shapeToString(shape);
}
