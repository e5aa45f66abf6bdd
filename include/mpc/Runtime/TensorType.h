//===- TensorType.h - element types and shapes ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The type of a buffer: element type and shape.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_TENSORTYPE_H
#define MPC_RUNTIME_TENSORTYPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpc {

/// Element type in memory. `I1` takes one byte (0 or 1); signless integers are
/// signed.
enum class ElementType {
  I1,
  I8,
  I16,
  I32,
  I64,
  UI8,
  UI16,
  UI32,
  UI64,
  F16,
  BF16,
  F32,
  F64,
  F8E4M3FN,
  F8E5M2
};

/// "i1", "i8", "ui8", "f16", "bf16", "f32", "f8E4M3FN", ...
std::string_view elementTypeName(ElementType type);
/// Returns the type of that name, or nullopt.
std::optional<ElementType> parseElementType(std::string_view name);
/// Returns the size of one element in memory, in bytes.
int64_t elementBytes(ElementType type);
/// Returns true for f16, bf16, f32, f64 and the 8-bit floats.
bool isFloat(ElementType type);
/// Returns true for f8E4M3FN and f8E5M2, which only library GEMMs support.
bool isFloat8(ElementType type);

/// Element type and shape of a dense row-major tensor. A plain value.
struct TensorType {
  ElementType element = ElementType::F32;
  std::vector<int64_t> shape;

  /// Returns the number of elements, or nullopt if an extent is negative or the
  /// product overflows 63 bits.
  std::optional<int64_t> elementCount() const;
  /// Returns the size in bytes, or nullopt in the same cases.
  std::optional<int64_t> byteCount() const;
  /// "f32[32,784]"; "f32[]" for a scalar.
  std::string toString() const;

  bool operator==(const TensorType &other) const = default;
};

/// "[32,784]".
std::string shapeToString(const std::vector<int64_t> &shape);

} // namespace mpc

#endif // MPC_RUNTIME_TENSORTYPE_H
