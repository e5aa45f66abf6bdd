//===- Gguf.h - verified reader of GGUF files -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Metadata and tensor directory of a GGUF file, versions 2 and 3 (format:
// docs/gguf.md of ggml). Nothing is copied but names.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GGUF_H
#define MPC_LIB_IMPORT_CHECKPOINT_GGUF_H

#include "GgufBlocks.h"

#include "mpc/Runtime/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::checkpoint {

/// Types of metadata values, with the numbers of the format.
enum class GgufType : uint32_t {
  UInt8,
  Int8,
  UInt16,
  Int16,
  UInt32,
  Int32,
  Float32,
  Bool,
  String,
  Array,
  UInt64,
  Int64,
  Float64,
};

/// A verified metadata value in the file's bytes, which must outlive it.
struct GgufValue {
  GgufType type = GgufType::UInt8;
  /// Type of the elements of an array.
  GgufType element = GgufType::UInt8;
  /// Number of elements of an array.
  uint64_t count = 0;
  /// The number, the string without its length, or the elements.
  llvm::ArrayRef<uint8_t> bytes;

  /// Each returns nullopt if the value has another type; an integer above the
  /// range of int64_t is none.
  std::optional<int64_t> integer() const;
  /// A float, or an integer rounded to the nearest double.
  std::optional<double> number() const;
  std::optional<bool> flag() const;
  std::optional<llvm::StringRef> text() const;
  /// Elements of an array of numbers or booleans.
  std::optional<std::vector<double>> numbers() const;
};

/// A tensor in the file's bytes, which must outlive it.
struct GgufTensor {
  std::string name;
  /// Row-major extents: the reverse of the file's.
  std::vector<int64_t> shape;
  const BlockFormat *format = nullptr;
  /// Offset in the file, in bytes.
  uint64_t offset = 0;
  llvm::ArrayRef<uint8_t> bytes;
};

/// Contents of a GGUF file; refers to the file's bytes, which must outlive it.
struct GgufFile {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::map<std::string, GgufTensor, std::less<>> tensors;

  /// Verifies all of a file except the numbers of its tensors: every count and
  /// length is inside the file, keys and names are unique, every tensor has a
  /// supported type and whole blocks per row, and no two overlap. `name` is
  /// used in messages. Takes memory proportional to the names in the file.
  static Result<GgufFile> parse(llvm::ArrayRef<uint8_t> bytes,
                                const std::string &name);

  /// Returns null if there is no value of `key`.
  const GgufValue *find(llvm::StringRef key) const;
};

/// Returns true if `bytes` starts like a GGUF file.
bool isGguf(llvm::ArrayRef<uint8_t> bytes);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GGUF_H
