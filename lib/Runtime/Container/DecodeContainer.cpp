//===- DecodeContainer.cpp - decoding .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header, the sections, and the target-independent part of the table.
//
//===----------------------------------------------------------------------===//

#include "ContainerReader.h"

#include <cstring>

using namespace mpc;
using namespace mpc::container;

Status container::refuse(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

std::string container::placeOf(const std::string &where, const char *part,
                               size_t index) {
  return where + ": " + part + " " + std::to_string(index);
}

template <typename T>
static T readAt(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Status container::checkHeader(std::span<const std::byte> header,
                              uint64_t fileBytes, const std::string &where) {
  if (header.size() < kHeaderBytes ||
      std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return refuse(where, "is not an .mpcx file");
  auto version = readAt<uint32_t>(header, kVersionAt);
  if (version != kFormatVersion)
    return refuse(where, "has format version " + std::to_string(version) +
                             ", but this build supports version " +
                             std::to_string(kFormatVersion) +
                             "; compile the model again");
  auto declared = readAt<uint64_t>(header, kFileBytesAt);
  if (declared != fileBytes)
    return refuse(where, "declares " + std::to_string(declared) +
                             " bytes, but has " + std::to_string(fileBytes) +
                             ": it is damaged");
  auto table = readAt<uint64_t>(header, kTableBytesAt);
  if (table > kMostTableBytes || table > fileBytes - kHeaderBytes ||
      readAt<uint32_t>(header, kReservedAt) != 0)
    return refuse(where, "has an invalid header: it is damaged");
  return {};
}

Status Decoder::spend(size_t amount) {
  if (amount > budget)
    return refuse(where, "has a table with too many repetitions");
  budget -= amount;
  return {};
}

Status Decoder::readString(const flatbuffers::String &from, std::string &to) {
  if (Status status = spend(sizeof(std::string) + from.size()); !status.ok())
    return status;
  to.assign(from.data(), from.size());
  return {};
}

Status Decoder::readType(const flatbuffers::String &element,
                         const flatbuffers::Vector<int64_t> &shape,
                         const std::string &place, TensorType &type) {
  std::optional<ElementType> parsed =
      parseElementType({element.data(), element.size()});
  if (!parsed)
    return refuse(place, "has an unknown element type");
  if (!isAligned(shape))
    return refuse(place, "has a shape that is not aligned");
  if (Status status = spend(shape.size() * sizeof(int64_t)); !status.ok())
    return status;
  type.element = *parsed;
  type.shape.assign(shape.begin(), shape.end());
  if (!type.byteCount())
    return refuse(place, "has a type without a size that fits in memory");
  return {};
}

Status Decoder::readValues(
    const flatbuffers::Vector<flatbuffers::Offset<fb::Value>> &from,
    const char *part, std::vector<StoredValue> &to) {
  for (const fb::Value *value : from) {
    std::string place = placeOf(where, part, to.size());
    StoredValue read;
    if (Status status = spend(sizeof(read)); !status.ok())
      return status;
    if (Status status = readString(*value->name(), read.name); !status.ok())
      return status;
    if (Status status =
            readType(*value->element(), *value->shape(), place, read.type);
        !status.ok())
      return status;
    if (value->role())
      if (Status status = readString(*value->role(), read.role); !status.ok())
        return status;
    read.integerBound = value->integer_bound();
    if (read.integerBound < 0)
      return refuse(place, "has a negative bound of its integers");
    if (value->field())
      if (Status status = readString(*value->field(), read.field); !status.ok())
        return status;
    read.alias = value->alias();
    if (const auto *shape = value->shard_of()) {
      TensorType whole;
      if (Status status = readType(*value->element(), *shape, place, whole);
          !status.ok())
        return status;
      read.shardOf = std::move(whole.shape);
    }
    if (int64_t number = value->initial(); number != -1) {
      if (number < 0 || size_t(number) >= sections.size())
        return refuse(place, "refers to a section that does not exist");
      std::span<const std::byte> section = sections[size_t(number)];
      if (TensorType type = read.initialType();
          int64_t(section.size()) != *type.byteCount())
        return refuse(place, "of type " + type.toString() +
                                 " has an initial value of " +
                                 std::to_string(section.size()) + " bytes");
      read.initial = std::shared_ptr<const void>(owner, section.data());
    }
    if (value->labels())
      for (const flatbuffers::String *label : *value->labels()) {
        read.labels.emplace_back();
        if (Status status = readString(*label, read.labels.back());
            !status.ok())
          return status;
      }
    to.push_back(std::move(read));
  }
  return {};
}

Status Decoder::readSections() {
  uint64_t first = kHeaderBytes + readAt<uint64_t>(bytes, kTableBytesAt);
  if (!isAligned(*table->sections()))
    return refuse(where, "has a table of sections that is not aligned");
  for (const fb::Section *section : *table->sections()) {
    uint64_t offset = section->offset(), size = section->bytes();
    if (offset % kSectionAlignment != 0 || offset < first ||
        size > bytes.size() || offset > bytes.size() - size)
      return refuse(placeOf(where, "section", sections.size()),
                    "reaches from byte " + std::to_string(offset) + " over " +
                        std::to_string(size) + " bytes of " +
                        std::to_string(bytes.size()));
    if (Status status = spend(sizeof(std::span<const std::byte>)); !status.ok())
      return status;
    sections.push_back(bytes.subspan(offset, size));
  }
  return {};
}

Status Decoder::readSpecialisation(const fb::Specialisation &from,
                                   StoredSpecialisation &to) {
  if (Status status = spend(sizeof(to)); !status.ok())
    return status;
  for (const fb::Dimension *dim : *from.dims()) {
    std::string name;
    if (Status status = readString(*dim->name(), name); !status.ok())
      return status;
    to.dims[std::move(name)] = dim->extent();
  }
  std::optional<ElementType> narrowest =
      parseElementType({from.narrowest()->data(), from.narrowest()->size()});
  if (!narrowest || !isFloat(*narrowest) || from.longest_reduction() < 1 ||
      from.longest_chain() < 0)
    return refuse(where, "has an invalid description of its rounding");
  to.narrowest = *narrowest;
  to.longestReduction = from.longest_reduction();
  to.longestChain = from.longest_chain();
  if (Status status = readValues(*from.arguments(), "argument", to.arguments);
      !status.ok())
    return status;
  if (Status status = readValues(*from.results(), "result", to.results);
      !status.ok())
    return status;
  for (const fb::Target *target : *from.targets()) {
    if (Status status = spend(sizeof(StoredProgram)); !status.ok())
      return status;
    std::string place = placeOf(where, "target", to.programs.size());
    if (Status status =
            readTarget(*target, place, to, to.programs.emplace_back());
        !status.ok())
      return status;
  }
  if (to.programs.empty())
    return refuse(where, "contains code for no target");
  return {};
}

Result<Contents> Decoder::decode() {
  if (bytes.size() < kHeaderBytes)
    return refuse(where, "is not an .mpcx file");
  if (Status status = checkHeader(bytes, bytes.size(), where); !status.ok())
    return status;
  if (digestOf(bytes) != readAt<Digest>(bytes, kDigestAt))
    return refuse(where, "does not match its SHA-256: it is damaged");

  auto tableBytes = size_t(readAt<uint64_t>(bytes, kTableBytesAt));
  const auto *start =
      reinterpret_cast<const uint8_t *>(bytes.data()) + kHeaderBytes;
  flatbuffers::Verifier verifier(start, tableBytes, /*max_depth=*/8,
                                 /*max_tables=*/1000000);
  if (!fb::VerifyExecutableBuffer(verifier))
    return refuse(where, "has a table that refers outside of itself");
  table = fb::GetExecutable(start);
  // A string takes at least 32 bytes in memory and four in the table.
  budget = 64 * tableBytes + 4096;

  for (auto [from, to] : {std::pair(table->name(), &contents.name),
                          {table->model(), &contents.model},
                          {table->policy(), &contents.policy},
                          {table->compiler(), &contents.compiler}})
    if (Status status = readString(*from, *to); !status.ok())
      return status;
  if (Status status = readSections(); !status.ok())
    return status;
  for (const fb::Specialisation *specialisation : *table->specialisations())
    if (Status status = readSpecialisation(
            *specialisation, contents.specialisations.emplace_back());
        !status.ok())
      return status;
  if (contents.specialisations.empty())
    return refuse(where, "contains no program");
  return std::move(contents);
}

Result<Contents> container::decode(const std::shared_ptr<const void> &owner,
                                   std::span<const std::byte> bytes,
                                   const std::string &where) {
  return Decoder(owner, bytes, where).decode();
}
