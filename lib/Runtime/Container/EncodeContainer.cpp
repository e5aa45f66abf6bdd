//===- EncodeContainer.cpp - encoding .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schema.h"

#include "../Sha256.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace mpc;
using namespace mpc::container;

// Header, table and code are in native byte order.
static_assert(std::endian::native == std::endian::little);
static_assert(kSectionAlignment % kBufferAlignment == 0);

Digest container::digestOf(std::span<const std::byte> file) {
  static constexpr std::byte zeros[sizeof(Digest)] = {};
  std::array<std::span<const std::byte>, 3> parts = {
      file.first(kDigestAt), std::span(zeros), file.subspan(kHeaderBytes)};
  return detail::sha256OfParts(parts);
}

namespace {

/// Encodes values as Schema.h describes.
class Writer {
public:
  template <typename... Values> void operator()(const Values &...values) {
    (write(values), ...);
  }
  /// Writes `bytes` bytes as a section.
  void section(const std::shared_ptr<const void> &data, int64_t bytes) {
    write(std::span(static_cast<const std::byte *>(data.get()), size_t(bytes)));
  }

  /// Writes a constant: its key if weights are referred to, else a section.
  void constant(const std::string &key, const std::shared_ptr<const void> &data,
                int64_t bytes) {
    write(refersToWeights ? key : std::string());
    if (!refersToWeights || key.empty())
      section(data, bytes);
  }

  /// Whether constants with keys are left out.
  bool refersToWeights = false;
  /// What was written.
  std::string table;
  /// The sections that it refers to; equal ones are the same.
  std::vector<std::span<const std::byte>> sections;

private:
  template <typename T> void write(const T &value) {
    if constexpr (std::is_enum_v<T>)
      write(uint8_t(value));
    else if constexpr (std::is_arithmetic_v<T>)
      table.append(reinterpret_cast<const char *>(&value), sizeof(value));
    else
      serialize(*this, value);
  }
  void write(const std::string &text) {
    write(uint32_t(text.size()));
    table += text;
  }
  template <typename T> void write(const std::vector<T> &list) {
    write(uint32_t(list.size()));
    for (const T &element : list)
      write(element);
  }
  template <typename T, size_t size>
  void write(const std::array<T, size> &list) {
    for (const T &element : list)
      write(element);
  }
  template <typename T> void write(const std::map<std::string, T> &map) {
    write(uint32_t(map.size()));
    for (const auto &[key, value] : map)
      (*this)(key, value);
  }
  template <typename T> void write(const std::optional<T> &value) {
    write(value.has_value());
    if (value)
      write(*value);
  }
  void write(std::span<const std::byte> bytes) { write(numberOf(bytes)); }

  /// Returns the index of a section with these bytes.
  uint32_t numberOf(std::span<const std::byte> bytes) {
    // Weights differ early: few need a complete comparison.
    std::pair key(bytes.size(), detail::sha256(bytes.first(
                                    std::min<size_t>(bytes.size(), 4096))));
    auto [first, last] = sectionOf.equal_range(key);
    for (auto entry = first; entry != last; ++entry) {
      std::span<const std::byte> other = sections[entry->second];
      if (other.data() == bytes.data() ||
          std::memcmp(other.data(), bytes.data(), bytes.size()) == 0)
        return entry->second;
    }
    sectionOf.emplace(key, uint32_t(sections.size()));
    sections.push_back(bytes);
    return uint32_t(sections.size() - 1);
  }

  /// Sections by size and digest of the first bytes, to find equal ones.
  std::multimap<std::pair<size_t, Digest>, uint32_t> sectionOf;
};

} // namespace

Result<std::vector<std::byte>> container::encode(Contents contents,
                                                 bool refersToWeights) {
  for (StoredSpecialisation &specialisation : contents.specialisations)
    for (StoredProgram &stored : specialisation.programs)
      if (stored.program.cuda)
        stored.cuda.emplace(*stored.program.cuda);
  Writer body;
  body.refersToWeights = refersToWeights;
  body(contents);
  std::vector<uint64_t> sizes;
  sizes.reserve(body.sections.size());
  for (std::span<const std::byte> section : body.sections)
    sizes.push_back(section.size());
  Writer head;
  head(sizes);
  std::string table = head.table + body.table;
  if (table.size() > kMostTableBytes)
    return Status(StatusCode::InvalidArgument, contents.model,
                  "needs a table of " + std::to_string(table.size()) +
                      " bytes, but a file can contain at most " +
                      std::to_string(kMostTableBytes));
  uint64_t tableBytes = table.size(), fileBytes = kHeaderBytes + tableBytes;
  for (uint64_t size : sizes)
    fileBytes = alignedToSection(fileBytes) + size;

  std::vector<std::byte> file(fileBytes);
  auto put = [&](size_t offset, const auto &value) {
    std::memcpy(file.data() + offset, &value, sizeof(value));
  };
  put(0, kMagic);
  put(kVersionAt, kFormatVersion);
  put(kFileBytesAt, fileBytes);
  put(kTableBytesAt, tableBytes);
  std::memcpy(file.data() + kHeaderBytes, table.data(), tableBytes);
  uint64_t end = kHeaderBytes + tableBytes;
  for (std::span<const std::byte> section : body.sections) {
    uint64_t start = alignedToSection(end);
    if (!section.empty())
      std::memcpy(file.data() + start, section.data(), section.size());
    end = start + section.size();
  }
  put(kDigestAt, digestOf(file));
  return file;
}
