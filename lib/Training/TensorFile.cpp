//===- TensorFile.cpp - safetensors files with a digest -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorFile.h"

#include "../Runtime/Sha256.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Safetensors.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::training;

static constexpr size_t kDigits = 2 * sizeof(mpc::detail::Sha256Digest);

namespace {

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
    uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", safetensorsDtype(type.element)},
                           {"shape", type.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = jsonText(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMostSafetensorsHeader)
    return Status(
        StatusCode::InvalidArgument, "checkpoint",
        "has a header of " + std::to_string(text.size()) + " bytes; at most " +
            std::to_string(kMostSafetensorsHeader) + " are supported");
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

/// Checks and removes the digest in the metadata of a file.
static Status checkDigest(std::string_view bytes, std::string_view header,
                          std::map<std::string, std::string> &metadata,
                          const std::string &where, bool needed) {
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, where, text);
  };
  auto found = metadata.find("sha256");
  if (found == metadata.end())
    return needed ? bad("has no digest (metadata sha256)") : Status();
  std::string digest = found->second;
  metadata.erase(found);
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

Result<TensorFile> training::decodeTensorFile(std::string_view bytes,
                                              const std::string &where,
                                              bool needsDigest) {
  Result<SafetensorsHeader> header = readSafetensorsHeader(
      bytes, where,
      [&](std::string_view text, std::map<std::string, std::string> &metadata) {
        return checkDigest(bytes, text, metadata, where, needsDigest);
      });
  if (!header.ok())
    return header.status();
  TensorFile file;
  file.metadata = std::move(header->metadata);
  for (SafetensorsHeader::Tensor &tensor : header->tensors) {
    if (isFloat8(tensor.type.element))
      return Status(StatusCode::InvalidArgument, where,
                    "tensor '" + tensor.name + "' has the type " +
                        tensor.type.toString() +
                        ", which training does not support");
    std::string_view data =
        bytes.substr(tensor.offset, size_t(*tensor.type.byteCount()));
    Result<Buffer> buffer =
        Buffer::fromHost(tensor.type, std::as_bytes(std::span(data)));
    if (!buffer.ok())
      return Status(buffer.status().code(), where,
                    "tensor '" + tensor.name + "' " + buffer.status().text());
    file.tensors.push_back({std::move(tensor.name), std::move(*buffer)});
  }
  return file;
}
