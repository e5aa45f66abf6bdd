//===- GgufBytes.h - hand-written GGUF files --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_IMPORT_CHECKPOINT_GGUFBYTES_H
#define MPC_TEST_UNIT_IMPORT_CHECKPOINT_GGUFBYTES_H

#include "Gguf.h"

#include <string>
#include <vector>

namespace mpc::checkpoint::test {

/// Bytes of a GGUF file, written field by field.
class Bytes {
public:
  template <typename T> Bytes &number(T value) {
    const auto *at = reinterpret_cast<const uint8_t *>(&value);
    bytes.insert(bytes.end(), at, at + sizeof(value));
    return *this;
  }
  Bytes &text(llvm::StringRef text) {
    number<uint64_t>(text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
    return *this;
  }
  Bytes &header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
    for (char letter : {'G', 'G', 'U', 'F'})
      bytes.push_back(uint8_t(letter));
    return number(version).number(tensors).number(values);
  }
  Bytes &value(llvm::StringRef key, GgufType type) {
    return text(key).number(uint32_t(type));
  }
  Bytes &array(GgufType element, uint64_t count) {
    return number(uint32_t(element)).number(count);
  }
  Bytes &tensor(llvm::StringRef name, std::vector<uint64_t> extents,
                uint32_t type, uint64_t offset) {
    text(name).number(uint32_t(extents.size()));
    for (uint64_t extent : extents)
      number(extent);
    return number(type).number(offset);
  }
  /// Appends `size` bytes of data after the alignment.
  Bytes &data(size_t size, size_t alignment = 32) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    for (size_t i = 0; i < size; ++i)
      bytes.push_back(uint8_t(i));
    return *this;
  }

  Result<GgufFile> parse() const { return GgufFile::parse(bytes, "m.gguf"); }
  /// The message of a file that is refused, or "accepted".
  std::string failure() const {
    Result<GgufFile> file = parse();
    return file.ok() ? "accepted" : file.status().toString();
  }

  std::vector<uint8_t> bytes;
};

} // namespace mpc::checkpoint::test

#endif // MPC_TEST_UNIT_IMPORT_CHECKPOINT_GGUFBYTES_H
