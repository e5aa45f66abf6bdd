//===- SafetensorsStore.cpp - weights of safetensors files ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SafetensorsStore.h"

#include "FileContents.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Safetensors.h"
#include "mpc/Support/StrictJson.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mpc;
using namespace mpc::checkpoint;
using Json = nlohmann::json;

static constexpr const char *kSingle = "model.safetensors";
static constexpr const char *kIndex = "model.safetensors.index.json";
/// Maximum number of shards; each takes a mapping.
static constexpr size_t kMostShards = 4096;

namespace {

class SafetensorsStore final : public WeightStore {
public:
  /// Adds the tensors of the file `name`.
  Status add(const std::string &folder, const std::string &name);

  const StoredTensor *find(llvm::StringRef name) const override {
    auto found = entries.find(name);
    return found == entries.end() ? nullptr : &found->second.tensor;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto &entry : entries)
      all.push_back(entry.first().str());
    std::sort(all.begin(), all.end());
    return all;
  }
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef name) const override {
    const Entry &entry = entries.find(name)->second;
    return files[entry.file].tensor(entry.tensor.type, entry.offset);
  }
  /// Returns the number of the file that contains the tensor `name`, in order
  /// of add(), or nullopt.
  std::optional<size_t> fileOf(llvm::StringRef name) const {
    auto found = entries.find(name);
    if (found == entries.end())
      return std::nullopt;
    return found->second.file;
  }

private:
  struct Entry {
    StoredTensor tensor;
    size_t file = 0;
    uint64_t offset = 0;
  };
  std::vector<FileContents> files;
  llvm::StringMap<Entry> entries;
};

} // namespace

Status SafetensorsStore::add(const std::string &folder,
                             const std::string &name) {
  std::string path = folder + "/" + name;
  Result<InputFile> file = InputFile::openInside(folder, name);
  if (!file.ok())
    return file.status();
  Result<FileContents> contents = readContents(*file, path);
  if (!contents.ok())
    return contents.status();
  Result<SafetensorsHeader> header =
      readSafetensorsHeader(contents->text(), path);
  if (!header.ok())
    return header.status();
  for (const SafetensorsHeader::Tensor &tensor : header->tensors) {
    StoredTensor stored{tensor.type, tensorIdentity(tensor.name, tensor.type,
                                                    *contents, tensor.offset)};
    if (!entries
             .try_emplace(tensor.name,
                          Entry{std::move(stored), files.size(), tensor.offset})
             .second)
      return Status(StatusCode::InvalidArgument, path,
                    "has the tensor '" + printable(tensor.name) +
                        "', which an earlier shard has, too");
  }
  files.push_back(std::move(*contents));
  return {};
}

/// Adds the shards of an index and checks that they have its tensors.
static Status addShards(SafetensorsStore &store, const std::string &folder) {
  std::string path = folder + "/" + kIndex;
  auto bad = [&](const std::string &text) {
    return Status(StatusCode::InvalidArgument, path, text);
  };
  Result<InputFile> file = InputFile::openInside(folder, kIndex);
  if (!file.ok())
    return file.status();
  if (file->size() > kMostSafetensorsHeader)
    return bad("has " + std::to_string(file->size()) + " bytes; at most " +
               std::to_string(kMostSafetensorsHeader) + " are supported");
  std::string text(file->size(), '\0');
  if (Status status = file->read(text.data(), text.size()); !status.ok())
    return status;
  Result<Json> index = parseStrictJson(text, path, "has an index");
  if (!index.ok())
    return index.status();
  auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty())
    return bad("has no weight_map, an object with the file of each tensor");
  std::map<std::string, size_t> shards;
  for (const auto &[tensor, shard] : map->items()) {
    if (!shard.is_string())
      return bad("has a weight_map with no file name for '" +
                 printable(tensor) + "'");
    shards.try_emplace(shard.get<std::string>(), 0);
  }
  if (shards.size() > kMostShards)
    return bad("lists " + std::to_string(shards.size()) + " shards; at most " +
               std::to_string(kMostShards) + " are supported");
  size_t count = 0;
  for (auto &[shard, number] : shards) {
    number = count++;
    if (Status status = store.add(folder, shard); !status.ok())
      return Status(status.code(), status.where(),
                    status.text() + "; " + kIndex + " lists this shard");
  }
  for (const auto &[tensor, shard] : map->items()) {
    const auto &name = shard.get_ref<const std::string &>();
    if (store.fileOf(tensor) != shards[name])
      return bad("lists the tensor '" + printable(tensor) + "' in '" +
                 printable(name) + "', which does not have it");
  }
  return {};
}

Result<std::unique_ptr<WeightStore>>
mpc::checkpoint::openSafetensors(const std::string &folder) {
  auto store = std::make_unique<SafetensorsStore>();
  auto has = [&](const char *name) {
    return llvm::sys::fs::exists(folder + "/" + name);
  };
  Status status;
  if (has(kSingle))
    status = store->add(folder, kSingle);
  else if (has(kIndex))
    status = addShards(*store, folder);
  else
    status = Status(StatusCode::NotFound, folder,
                    std::string("has neither ") + kSingle + " nor " + kIndex +
                        "; save the model with safe_serialization");
  if (!status.ok())
    return status;
  return std::unique_ptr<WeightStore>(std::move(store));
}
