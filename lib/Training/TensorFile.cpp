//===- TensorFile.cpp - safetensors files with a digest -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include "../Runtime/Sha256.h"

#include "mpc/Support/EscapedText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::training;
using Json = nlohmann::json;

static constexpr size_t kDigits = 2 * sizeof(mpc::detail::Sha256Digest);

namespace {

struct Dtype {
  std::string_view name;
  ElementType type;
};
constexpr std::array<Dtype, 13> kDtypes{{
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
}};

/// Returns the hexadecimal digest of a file, with its own digits (from `hole`
/// on, unless that is npos) read as zeros.
std::string digestOf(std::string_view bytes, size_t hole) {
  std::string zeros(kDigits, '0');
  std::vector<std::string_view> parts = {bytes.substr(0, hole)};
  if (hole != std::string_view::npos)
    parts.insert(parts.end(), {zeros, bytes.substr(hole + kDigits)});
  std::vector<std::span<const std::byte>> spans;
  for (std::string_view part : parts)
    spans.push_back(std::as_bytes(std::span(part)));
  return mpc::detail::toHex(mpc::detail::sha256OfParts(spans));
}

} // namespace

Result<std::string> training::encodeTensorFile(const TensorFile &file) {
  nlohmann::ordered_json header, metadata;
  for (const auto &[key, value] : file.metadata)
    metadata[key] = value;
  metadata["sha256"] = std::string(kDigits, '0');
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  std::set<std::string> names = {"__metadata__"};
  for (const NamedTensor &tensor : file.tensors) {
    const mpc::TensorType &type = tensor.data.type();
    if (!names.insert(tensor.name).second || tensor.data.onDevice())
      return Status(StatusCode::Internal, "tensor '" + tensor.name + "'",
                    "is given twice or is not in host memory");
    const Dtype *dtype =
        std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype &entry) {
          return entry.type == type.element;
        });
    uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", dtype->name},
                           {"shape", type.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = jsonText(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMostHeader)
    return Status(StatusCode::InvalidArgument, "checkpoint",
                  "has a header of " + std::to_string(text.size()) +
                      " bytes; at most " + std::to_string(kMostHeader) +
                      " are supported");
  std::string bytes(8, '\0');
  uint64_t size = text.size();
  std::memcpy(bytes.data(), &size, sizeof(size));
  bytes += text;
  bytes.reserve(bytes.size() + offset);
  for (const NamedTensor &tensor : file.tensors)
    bytes.append(static_cast<const char *>(tensor.data.data()),
                 tensor.data.size());
  // The digest occurs once in the header, in the metadata, which is first.
  constexpr std::string_view kKey = "\"sha256\":\"";
  size_t hole = bytes.find(kKey);
  if (file.metadata.contains("sha256") || hole == std::string::npos)
    return Status(StatusCode::Internal, "checkpoint",
                  "has metadata with the key of the digest");
  hole += kKey.size();
  std::string digest = digestOf(bytes, hole);
  bytes.replace(hole, kDigits, digest);
  return bytes;
}

namespace {

/// Validates a header and reads its tensors.
class Decoder {
public:
  Decoder(std::string_view bytes, const std::string &where)
      : bytes(bytes), where(where) {}

  Result<TensorFile> decode(bool needsDigest);

private:
  Status bad(const std::string &text) const {
    return Status(StatusCode::InvalidArgument, where, text);
  }
  Status readMetadata(const Json &entries);
  Status readTensor(const std::string &name, const Json &entry);
  Status checkDigest(std::string_view header, bool needed);

  std::string_view bytes, data;
  std::string where;
  TensorFile file;
  /// Byte ranges of tensors, to detect overlaps.
  std::set<std::pair<uint64_t, uint64_t>> taken;
};

} // namespace

Status Decoder::readMetadata(const Json &entries) {
  if (!entries.is_object())
    return bad("has a __metadata__ that is not an object");
  for (const auto &[key, value] : entries.items()) {
    if (!value.is_string())
      return bad("has metadata '" + key.substr(0, 100) +
                 "' that is not a string");
    file.metadata[key] = value.get_ref<const std::string &>();
  }
  return {};
}

Status Decoder::readTensor(const std::string &name, const Json &entry) {
  std::string what = "tensor '" + name.substr(0, 200) + "' ";
  auto field = [&](const char *key) {
    auto found = entry.is_object() ? entry.find(key) : entry.end();
    return found == entry.end() ? Json() : *found;
  };
  Json dtype = field("dtype"), shape = field("shape"),
       offsets = field("data_offsets");
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
  mpc::TensorType type{known->type, {}};
  for (const Json &extent : shape)
    type.shape.push_back(extent.get<int64_t>());
  std::optional<int64_t> size = type.byteCount();
  auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (!size || begin > end || end > data.size() ||
      end - begin != uint64_t(*size))
    return bad(what + "is " + type.toString() + ", but its offsets are [" +
               std::to_string(begin) + ", " + std::to_string(end) + ") of " +
               std::to_string(data.size()) + " bytes");
  if (begin < end) {
    auto after = taken.lower_bound({begin, 0});
    bool overlaps = after != taken.end() && after->first < end;
    if (after != taken.begin())
      overlaps |= std::prev(after)->second > begin;
    if (overlaps)
      return bad(what + "overlaps another");
    taken.insert({begin, end});
  }
  Result<Buffer> buffer = Buffer::fromHost(
      type, std::as_bytes(std::span(data.substr(begin, end - begin))));
  if (!buffer.ok())
    return Status(buffer.status().code(), where, what + buffer.status().text());
  file.tensors.push_back({name, std::move(*buffer)});
  return {};
}

Status Decoder::checkDigest(std::string_view header, bool needed) {
  auto found = file.metadata.find("sha256");
  if (found == file.metadata.end())
    return needed ? bad("has no digest (metadata sha256)") : Status();
  std::string digest = found->second;
  file.metadata.erase(found);
  std::string key = "\"sha256\":\"" + digest + "\"";
  size_t at = header.find(key);
  if (digest.size() != kDigits || at == std::string_view::npos)
    return bad("has a digest of an unsupported form");
  size_t hole =
      size_t(header.data() - bytes.data()) + at + key.size() - kDigits - 1;
  if (digestOf(bytes, hole) != digest)
    return bad("is damaged: its digest does not match its bytes");
  return {};
}

Result<TensorFile> Decoder::decode(bool needsDigest) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    return bad("is too short for a safetensors file");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMostHeader || length > bytes.size() - sizeof(length))
    return bad("declares a header of " + std::to_string(length) +
               " bytes, but the file has " + std::to_string(bytes.size()));
  std::string_view text = bytes.substr(sizeof(length), length);
  data = bytes.substr(sizeof(length) + length);
  // A duplicate name would hide an entry.
  std::vector<std::set<std::string>> keys;
  bool twice = false;
  Json header = Json::parse(
      text,
      [&](int, Json::parse_event_t event, Json &parsed) {
        if (event == Json::parse_event_t::object_start)
          keys.emplace_back();
        else if (event == Json::parse_event_t::object_end)
          keys.pop_back();
        else if (event == Json::parse_event_t::key)
          twice |=
              !keys.back().insert(parsed.get_ref<const std::string &>()).second;
        return true;
      },
      /*allow_exceptions=*/false);
  if (!header.is_object())
    return bad("has a header that is not a JSON object");
  if (twice)
    return bad("has a header with a duplicate name");
  if (auto found = header.find("__metadata__"); found != header.end())
    if (Status status = readMetadata(*found); !status.ok())
      return status;
  // Report corruption first: other errors may be its consequence.
  if (Status status = checkDigest(text, needsDigest); !status.ok())
    return status;
  for (const auto &[name, entry] : header.items())
    if (name != "__metadata__")
      if (Status status = readTensor(name, entry); !status.ok())
        return status;
  return std::move(file);
}

Result<TensorFile> training::decodeTensorFile(std::string_view bytes,
                                              const std::string &where,
                                              bool needsDigest) {
  return Decoder(bytes, where).decode(needsDigest);
}
