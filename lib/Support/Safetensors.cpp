//===- Safetensors.cpp - headers of safetensors files ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Safetensors.h"

#include "mpc/Support/StrictJson.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

using namespace mpc;
using Json = nlohmann::json;

namespace {

struct Dtype {
  std::string_view name;
  ElementType type;
};
constexpr std::array<Dtype, 15> kDtypes{{
    {"BOOL", ElementType::I1},
    {"I8", ElementType::I8},
    {"I16", ElementType::I16},
    {"I32", ElementType::I32},
    {"I64", ElementType::I64},
    {"U8", ElementType::UI8},
    {"U16", ElementType::UI16},
    {"U32", ElementType::UI32},
    {"U64", ElementType::UI64},
    {"F16", ElementType::F16},
    {"BF16", ElementType::BF16},
    {"F32", ElementType::F32},
    {"F64", ElementType::F64},
    {"F8_E4M3", ElementType::F8E4M3FN},
    {"F8_E5M2", ElementType::F8E5M2},
}};

/// Validates a header and reads its tensors.
class HeaderReader {
public:
  HeaderReader(uint64_t dataOffset, uint64_t dataSize, const std::string &where)
      : dataOffset(dataOffset), dataSize(dataSize), where(where) {}

  Status readMetadata(const Json &entries);
  Status readTensor(const std::string &name, const Json &entry);

  /// Returns the bytes of all tensors, which do not overlap.
  uint64_t used() const {
    uint64_t sum = 0;
    for (const auto &[begin, end] : taken)
      sum += end - begin;
    return sum;
  }

  SafetensorsHeader header;

private:
  Status bad(const std::string &text) const {
    return Status(StatusCode::InvalidArgument, where, text);
  }

  uint64_t dataOffset, dataSize;
  std::string where;
  /// Byte ranges of tensors, to detect overlaps.
  std::set<std::pair<uint64_t, uint64_t>> taken;
};

} // namespace

std::string_view mpc::safetensorsDtype(ElementType type) {
  return std::find_if(kDtypes.begin(), kDtypes.end(),
                      [&](const Dtype &entry) { return entry.type == type; })
      ->name;
}

Status HeaderReader::readMetadata(const Json &entries) {
  if (!entries.is_object())
    return bad("has a __metadata__ that is not an object");
  for (const auto &[key, value] : entries.items()) {
    if (!value.is_string())
      return bad("has metadata '" + key.substr(0, 100) +
                 "' that is not a string");
    header.metadata[key] = value.get_ref<const std::string &>();
  }
  return {};
}

Status HeaderReader::readTensor(const std::string &name, const Json &entry) {
  std::string what = "tensor '" + name.substr(0, 200) + "' ";
  auto field = [&](const char *key) {
    static const Json none;
    auto found = entry.is_object() ? entry.find(key) : entry.end();
    return found == entry.end() ? &none : &*found;
  };
  const Json &dtype = *field("dtype"), &shape = *field("shape"),
             &offsets = *field("data_offsets");
  auto isCount = [](const Json &value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= uint64_t(INT64_MAX);
  };
  if (!dtype.is_string() || !shape.is_array() || shape.size() > 32 ||
      !offsets.is_array() || offsets.size() != 2 ||
      !std::all_of(shape.begin(), shape.end(), isCount) ||
      !std::all_of(offsets.begin(), offsets.end(), isCount))
    return bad(what + "lacks a dtype, a shape of at most 32 extents or two "
                      "data_offsets");
  const auto &wanted = dtype.get_ref<const std::string &>();
  const Dtype *known =
      std::find_if(kDtypes.begin(), kDtypes.end(),
                   [&](const Dtype &entry) { return entry.name == wanted; });
  if (known == kDtypes.end())
    return bad(what + "has the dtype '" + wanted.substr(0, 40) +
               "', which is not supported");
  TensorType type{known->type, {}};
  for (const Json &extent : shape)
    type.shape.push_back(extent.get<int64_t>());
  std::optional<int64_t> size = type.byteCount();
  auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (!size || begin > end || end > dataSize || end - begin != uint64_t(*size))
    return bad(what + "is " + type.toString() + ", but its offsets are [" +
               std::to_string(begin) + ", " + std::to_string(end) + ") of " +
               std::to_string(dataSize) + " bytes");
  if (begin < end) {
    auto after = taken.lower_bound({begin, 0});
    bool overlaps = after != taken.end() && after->first < end;
    if (after != taken.begin())
      overlaps |= std::prev(after)->second > begin;
    if (overlaps)
      return bad(what + "overlaps another");
    taken.insert({begin, end});
  }
  header.tensors.push_back({name, std::move(type), dataOffset + begin});
  return {};
}

Result<SafetensorsHeader> mpc::readSafetensorsHeader(
    std::string_view bytes, const std::string &where,
    const std::function<Status(std::string_view,
                               std::map<std::string, std::string> &)>
        &checkMetadata) {
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    return bad("is too short for a safetensors file");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMostSafetensorsHeader || length > bytes.size() - sizeof(length))
    return bad("declares a header of " + std::to_string(length) +
               " bytes, but the file has " + std::to_string(bytes.size()));
  std::string_view text = bytes.substr(sizeof(length), length);
  Result<Json> json = parseStrictJson(text, where, "has a header");
  if (!json.ok())
    return json.status();
  uint64_t offset = sizeof(length) + length;
  HeaderReader reader(offset, bytes.size() - offset, where);
  if (auto found = json->find("__metadata__"); found != json->end())
    if (Status status = reader.readMetadata(*found); !status.ok())
      return status;
  if (checkMetadata)
    if (Status status = checkMetadata(text, reader.header.metadata);
        !status.ok())
      return status;
  for (const auto &[name, entry] : json->items())
    if (name != "__metadata__")
      if (Status status = reader.readTensor(name, entry); !status.ok())
        return status;
  if (reader.used() != bytes.size() - offset)
    return bad("has " + std::to_string(bytes.size() - offset) +
               " bytes of data, but its tensors have " +
               std::to_string(reader.used()));
  return std::move(reader.header);
}
