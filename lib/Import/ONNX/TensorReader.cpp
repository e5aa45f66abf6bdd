//===- TensorReader.cpp - decoding of tensors -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts every ONNX encoding of tensor elements to row-major bytes. Sizes are
// validated before allocation.
//
//===----------------------------------------------------------------------===//

#include "TensorReader.h"

#include "NarrowStorageType.h"
#include "onnx.pb.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <cstring>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

std::string mpc::onnx::dataTypeName(int32_t dataType) {
  static constexpr const char *names[] = {
      "UNDEFINED",      "FLOAT",      "UINT8",
      "INT8",           "UINT16",     "INT16",
      "INT32",          "INT64",      "STRING",
      "BOOL",           "FLOAT16",    "DOUBLE",
      "UINT32",         "UINT64",     "COMPLEX64",
      "COMPLEX128",     "BFLOAT16",   "FLOAT8E4M3FN",
      "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
      "UINT4",          "INT4",       "FLOAT4E2M1",
      "FLOAT8E8M0",     "UINT2",      "INT2"};
  if (dataType >= 0 && dataType < int32_t(std::size(names)))
    return names[dataType];
  return "type " + std::to_string(dataType);
}

Type mpc::onnx::elementTypeOf(int32_t dataType, MLIRContext *context) {
  Builder b(context);
  switch (dataType) {
  case kFloat:
    return b.getF32Type();
  case kUint8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case kInt8:
    return b.getIntegerType(8);
  case kUint16:
    return b.getIntegerType(16, /*isSigned=*/false);
  case kInt16:
    return b.getIntegerType(16);
  case kInt32:
    return b.getIntegerType(32);
  case kInt64:
    return b.getIntegerType(64);
  case kBool:
    return b.getI1Type();
  case kFloat16:
    return b.getF16Type();
  case kDouble:
    return b.getF64Type();
  case kUint32:
    return b.getIntegerType(32, /*isSigned=*/false);
  case kUint64:
    return b.getIntegerType(64, /*isSigned=*/false);
  case kBfloat16:
    return b.getBF16Type();
  default:
    return nullptr;
  }
}

int64_t mpc::onnx::bytesOf(int32_t dataType) {
  switch (dataType) {
  case kUint8:
  case kInt8:
  case kBool:
  case onnx::kFloat8E4M3FN:
  case onnx::kFloat8E4M3FNUZ:
  case onnx::kFloat8E5M2:
  case onnx::kFloat8E5M2FNUZ:
  case kFloat8E8M0:
  case kFloat4E2M1:
  case kUint4:
  case kInt4:
  case kUint2:
  case kInt2:
    return 1;
  case kUint16:
  case kInt16:
  case kFloat16:
  case kBfloat16:
    return 2;
  case kFloat:
  case kInt32:
  case kUint32:
    return 4;
  case kInt64:
  case kDouble:
  case kUint64:
    return 8;
  default:
    return 0;
  }
}

/// Returns the number of elements per byte of the file.
static int64_t elementsPerByte(int32_t dataType) {
  const NarrowStorageType *small = smallTypeOf(dataType);
  return small ? 8 / small->bits : 1;
}

int64_t mpc::onnx::storedBytes(int32_t dataType, int64_t count) {
  int64_t each = elementsPerByte(dataType);
  return each == 1 ? count * bytesOf(dataType)
                   : count / each + (count % each != 0);
}

void mpc::onnx::unpack(int32_t dataType, int64_t count, std::string &bytes) {
  if (dataType == kBool)
    for (char &byte : bytes)
      byte = char(byte != 0);
  int64_t each = elementsPerByte(dataType);
  if (each == 1)
    return;
  const NarrowStorageType &small = *smallTypeOf(dataType);
  int span = 1 << small.bits;
  bool isSigned = !small.format && small.isSigned;
  std::string elements(size_t(count), '\0');
  for (int64_t i = 0; i < count; ++i) {
    int shift = int(i % each) * small.bits;
    int element = (uint8_t(bytes[size_t(i / each)]) >> shift) & (span - 1);
    if (isSigned && element >= span / 2)
      element -= span;
    elements[size_t(i)] = char(element);
  }
  bytes = std::move(elements);
}

std::optional<int64_t> mpc::onnx::checkedCount(ArrayRef<int64_t> dims) {
  if (int64_t(dims.size()) > kMaxRank)
    return std::nullopt;
  int64_t count = 1;
  bool zero = false;
  for (int64_t extent : dims) {
    if (extent < 0)
      return std::nullopt;
    zero |= extent == 0;
    if (extent != 0 && __builtin_mul_overflow(count, extent, &count))
      return std::nullopt;
  }
  return zero ? 0 : count;
}

namespace {

/// Copies `values` as elements of type T; returns false if one does not fit.
template <typename T, typename Values>
bool store(const Values &values, std::string &bytes) {
  bytes.resize(size_t(values.size()) * sizeof(T));
  char *to = bytes.data();
  for (auto value : values) {
    T narrow = T(value);
    if constexpr (std::is_integral_v<T>) {
      if (decltype(value)(narrow) != value)
        return false;
    }
    std::memcpy(to, &narrow, sizeof(T));
    to += sizeof(T);
  }
  return true;
}

/// Copies the typed field for elements of `dataType` into `bytes`. `stored`
/// receives the number of entries found, `count` is the expected one: in bytes
/// for packed types, else in elements.
bool storeTyped(const mpc_onnx::TensorProto &proto, int32_t dataType,
                int64_t count, std::string &bytes, int64_t &stored) {
  auto take = [&](const auto &field, auto element) {
    stored = field.size();
    return stored != count || store<decltype(element)>(field, bytes);
  };
  switch (dataType) {
  case kFloat:
    return take(proto.float_data(), float());
  case kDouble:
    return take(proto.double_data(), double());
  case kInt64:
    return take(proto.int64_data(), int64_t());
  case kUint64:
    return take(proto.uint64_data(), uint64_t());
  case kUint32:
    return take(proto.uint64_data(), uint32_t());
  case kInt32:
    return take(proto.int32_data(), int32_t());
  case kInt16:
    return take(proto.int32_data(), int16_t());
  case kInt8:
    return take(proto.int32_data(), int8_t());
  case kUint16:
  case kFloat16:
  case kBfloat16:
    return take(proto.int32_data(), uint16_t());
  case kUint8:
  case kBool:
  case onnx::kFloat8E4M3FN:
  case onnx::kFloat8E4M3FNUZ:
  case onnx::kFloat8E5M2:
  case onnx::kFloat8E5M2FNUZ:
  case kFloat8E8M0:
  case kFloat4E2M1:
  case kUint4:
  case kInt4:
  case kUint2:
  case kInt2:
    return take(proto.int32_data(), uint8_t());
  default:
    return false;
  }
}

/// Parses a non-negative decimal number, nullopt for anything else.
std::optional<int64_t> parseNatural(StringRef text) {
  int64_t value;
  if (text.empty() || text.getAsInteger(10, value) || value < 0)
    return std::nullopt;
  return value;
}

LogicalResult readExternal(const mpc_onnx::TensorProto &proto,
                           TensorData &tensor, int64_t bytes, Location location,
                           StringRef what) {
  ExternalRange range;
  bool named = false;
  for (const auto &entry : proto.external_data()) {
    StringRef key = entry.key(), value = entry.value();
    if (key == "location") {
      range.location = value.str();
      named = true;
    } else if (key == "offset") {
      std::optional<int64_t> offset = parseNatural(value);
      if (!offset)
        return emitError(location)
               << what << " has external data at offset '" << value
               << "', which is not a natural number";
      range.offset = *offset;
    } else if (key == "length") {
      range.length = parseNatural(value);
      if (!range.length)
        return emitError(location)
               << what << " has external data of length '" << value
               << "', which is not a natural number";
    } else if (key != "checksum" && key != "basepath") {
      emitWarning(location)
          << what << ": external data key '" << key << "' is ignored";
    }
  }
  if (!named)
    return emitError(location)
           << what << " has external data without a location";
  if (range.length && *range.length != bytes)
    return emitError(location)
           << what << " needs " << bytes << " bytes, but its external data has "
           << *range.length;
  tensor.external = std::move(range);
  return success();
}

} // namespace

LogicalResult mpc::onnx::readTensor(mpc_onnx::TensorProto &proto,
                                    TensorData &tensor, Location location,
                                    StringRef what) {
  tensor.name = proto.name();
  tensor.dataType = proto.data_type();
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  int64_t width = bytesOf(tensor.dataType);
  if (width == 0)
    return emitError(location)
           << what << " has elements of " << dataTypeName(tensor.dataType)
           << ", which mpc does not read";
  if (proto.has_segment())
    return emitError(location)
           << what << " is stored in segments, which mpc does not read";
  std::optional<int64_t> count = checkedCount(tensor.dims);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, width, &bytes))
    return emitError(location)
           << what << " has a shape that is negative, of more than " << kMaxRank
           << " dimensions, or too large to count";
  int64_t stored = storedBytes(tensor.dataType, *count);
  if (proto.data_location() == 1)
    return readExternal(proto, tensor, stored, location, what);
  if (proto.data_location() != 0)
    return emitError(location)
           << what << " has unknown data location " << proto.data_location();
  if (proto.has_raw_data()) {
    int64_t size = int64_t(proto.raw_data().size());
    if (size != stored)
      return emitError(location)
             << what << " has " << size
             << " bytes of data, but its shape needs " << stored;
    tensor.bytes = std::move(*proto.mutable_raw_data());
  } else {
    int64_t expected = stored / width, entries = 0;
    bool fits =
        storeTyped(proto, tensor.dataType, expected, tensor.bytes, entries);
    if (entries != expected)
      return emitError(location)
             << what << " has " << entries << " elements of "
             << dataTypeName(tensor.dataType) << ", but its shape needs "
             << expected;
    if (!fits)
      return emitError(location)
             << what << " has an element outside the range of "
             << dataTypeName(tensor.dataType);
  }
  unpack(tensor.dataType, *count, tensor.bytes);
  return success();
}
