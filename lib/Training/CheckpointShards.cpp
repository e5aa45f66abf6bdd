//===- CheckpointShards.cpp - per-rank shards of a checkpoint -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shards are written first; the file that references their digests is last, so
// that a checkpoint is complete or absent.
//
//===----------------------------------------------------------------------===//

#include "CheckpointShards.h"

#include "TensorFile.h"

#include "../Runtime/Sha256.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"
#include "mpc/Support/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>

using namespace mpc;
using namespace mpc::training;
using Json = nlohmann::json;
namespace fs = std::filesystem;

static constexpr const char *kPartsKey = "mpc.parts";
static constexpr const char *kPiecesKey = "mpc.pieces";
static constexpr std::string_view kInfix = ".part-";
static constexpr size_t kMostParts = size_t(1) << 16;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string training::checkpointName(int64_t step) {
  // Twelve digits: lexicographic order is the order of steps.
  char name[64];
  std::snprintf(name, sizeof(name), "step-%012lld.safetensors",
                static_cast<long long>(step));
  return name;
}

std::string training::shardFileName(int64_t step, int64_t rank, int64_t ranks) {
  std::string name = checkpointName(step);
  name.insert(name.find('.'), std::string(kInfix) + std::to_string(rank) +
                                  "-of-" + std::to_string(ranks));
  return name;
}

std::optional<int64_t> training::parseCount(std::string_view text) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return std::nullopt;
  return number;
}

std::optional<int64_t> training::stepOfShard(std::string_view name) {
  constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";
  size_t at = name.find(kInfix);
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      at == std::string_view::npos)
    return std::nullopt;
  return parseCount(name.substr(kPrefix.size(), at - kPrefix.size()));
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string digestOf(std::string_view bytes) {
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(bytes))};
  return mpc::detail::toHex(mpc::detail::sha256OfParts(parts));
}

Result<std::string> mpc::saveCheckpointPart(const std::string &folder,
                                            int64_t step, int64_t rank,
                                            int64_t ranks,
                                            std::vector<NamedTensor> pieces) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  Result<std::string> bytes = encodeTensorFile({std::move(pieces), {}});
  if (!bytes.ok())
    return bytes.status();
  std::string path =
      (fs::path(folder) / shardFileName(step, rank, ranks)).string();
  if (Status status = writeWholeFile(path, {*bytes}); !status.ok())
    return status;
  return digestOf(*bytes);
}

void training::recordShards(Checkpoint &checkpoint) {
  if (checkpoint.parts.empty())
    return;
  checkpoint.facts[kPartsKey] = jsonText(Json(checkpoint.parts));
  checkpoint.facts[kPiecesKey] = jsonText(Json(checkpoint.pieces));
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// Reads the shards of one checkpoint.
class ShardReader {
public:
  ShardReader(const std::string &path, Checkpoint &checkpoint,
              uint64_t mostBytes)
      : path(path), checkpoint(checkpoint), mostBytes(mostBytes),
        bytesLeft(mostBytes) {}

  Status read();

private:
  Status bad(const std::string &text) const {
    return Status(StatusCode::InvalidArgument, path, text);
  }
  Status parse();
  Status readPart(int64_t rank);

  const std::string &path;
  Checkpoint &checkpoint;
  /// Limits, in bytes: data of one shard, and all tensors not yet read.
  uint64_t mostBytes, bytesLeft;
  Json digests, shapes;
  std::map<std::string, size_t> places;
};

} // namespace

Status ShardReader::parse() {
  auto take = [&](const char *key) {
    Json value = Json::parse(checkpoint.facts[key], nullptr,
                             /*allow_exceptions=*/false);
    checkpoint.facts.erase(key);
    return value;
  };
  digests = take(kPartsKey);
  shapes = take(kPiecesKey);
  auto isCount = [](const Json &value) { return value.is_number_unsigned(); };
  bool sound = digests.is_array() && !digests.empty() &&
               digests.size() <= kMostParts && shapes.is_object();
  if (sound)
    for (const Json &digest : digests)
      sound &= digest.is_string();
  if (sound)
    for (const auto &[name, shape] : shapes.items())
      sound &= shape.is_array() && shape.size() <= 32 &&
               std::all_of(shape.begin(), shape.end(), isCount);
  return sound ? Status() : bad("does not describe the shards of its ranks");
}

Status ShardReader::readPart(int64_t rank) {
  const auto ranks = int64_t(digests.size());
  std::string name = shardFileName(checkpoint.step, rank, ranks);
  std::string file = (fs::path(path).parent_path() / name).string();
  auto damaged = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, file, text);
  };
  Result<std::string> bytes =
      readWholeFile(file, mostBytes + kMostSafetensorsHeader);
  if (!bytes.ok())
    return bytes.status();
  if (digestOf(*bytes) != digests[size_t(rank)].get_ref<const std::string &>())
    return damaged("is damaged or belongs to another checkpoint: its digest "
                   "differs from the one in " +
                   fs::path(path).filename().string());
  Result<TensorFile> part =
      decodeTensorFile(*bytes, file, /*needsDigest=*/true);
  if (!part.ok())
    return part.status();
  if (part->tensors.size() != shapes.size())
    return damaged("has " + std::to_string(part->tensors.size()) +
                   " shards, but the checkpoint has " +
                   std::to_string(shapes.size()));
  for (const NamedTensor &piece : part->tensors) {
    auto shape = shapes.find(piece.name);
    if (shape == shapes.end())
      return damaged("has a shard of '" + piece.name +
                     "', which is not in the checkpoint");
    mpc::TensorType whole{piece.data.type().element,
                          shape->get<std::vector<int64_t>>()};
    std::optional<int64_t> size = whole.byteCount();
    auto place = places.find(piece.name);
    if (place == places.end()) {
      if (!size || uint64_t(*size) > bytesLeft)
        return Status(StatusCode::ResourceExhausted, file,
                      "is too large: tensor '" + piece.name + "' is " +
                          whole.toString() + ", but at most " +
                          std::to_string(bytesLeft) + " bytes are expected");
      bytesLeft -= uint64_t(*size);
      Result<Buffer> made = Buffer::allocate(whole);
      if (!made.ok())
        return made.status();
      place = places.emplace(piece.name, checkpoint.tensors.size()).first;
      checkpoint.tensors.push_back({piece.name, *made});
    }
    Buffer &to = checkpoint.tensors[place->second].data;
    int64_t element = elementBytes(whole.element);
    int64_t count = to.type().element == whole.element && element > 0
                        ? int64_t(to.size()) / element
                        : -1;
    int64_t each = count / ranks + (count % ranks != 0);
    if (count < 0 || int64_t(piece.data.size()) != each * element)
      return damaged("has a shard of '" + piece.name + "' of " +
                     std::to_string(piece.data.size()) +
                     " bytes, which is not one of " + std::to_string(ranks) +
                     " of " + to.type().toString());
    int64_t begin = std::min(rank * each, count);
    int64_t length = std::min(each, count - begin);
    if (length > 0)
      std::memcpy(static_cast<char *>(to.data()) + begin * element,
                  piece.data.data(), size_t(length * element));
  }
  return {};
}

Status ShardReader::read() {
  if (Status status = parse(); !status.ok())
    return status;
  for (int64_t rank = 0; rank < int64_t(digests.size()); ++rank)
    if (Status status = readPart(rank); !status.ok())
      return status;
  return {};
}

Status training::mergeShards(const std::string &path, Checkpoint &checkpoint,
                             uint64_t mostBytes) {
  if (!checkpoint.facts.contains(kPartsKey))
    return {};
  return ShardReader(path, checkpoint, mostBytes).read();
}
