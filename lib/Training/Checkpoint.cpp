//===- Checkpoint.cpp - training checkpoints ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/Checkpoint.h"

#include "CheckpointShards.h"
#include "TensorFile.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/Safetensors.h"

#include <algorithm>
#include <filesystem>
#include <optional>

using namespace mpc;
namespace fs = std::filesystem;

/// Metadata besides the caller's.
static constexpr const char *kVersionKey = "mpc.checkpoint";
static constexpr const char *kVersion = "1";
static constexpr const char *kStepKey = "mpc.step";

static constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

/// Returns the step in a checkpoint's file name.
static std::optional<int64_t> stepOf(std::string_view name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() ||
      !name.starts_with(kPrefix) || !name.ends_with(kSuffix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return training::parseCount(name);
}

namespace {

struct Entry {
  int64_t step;
  std::string path;
};

} // namespace

/// Lists the checkpoints of a folder, newest first; `parts` receives the shard
/// files of ranks, `abandoned` temporary files of interrupted writers.
static std::vector<Entry>
listFolder(const std::string &folder, std::vector<Entry> *parts = nullptr,
           std::vector<std::string> *abandoned = nullptr) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::string name = at->path().filename().string();
    // mkostemp appends a dot and six characters.
    std::string_view written =
        name.size() > 7 && name[name.size() - 7] == '.'
            ? std::string_view(name).substr(0, name.size() - 7)
            : std::string_view();
    if (std::optional<int64_t> step = stepOf(name))
      entries.push_back({*step, at->path().string()});
    else if (std::optional<int64_t> part = training::stepOfShard(name)) {
      if (parts)
        parts->push_back({*part, at->path().string()});
    } else if (abandoned && (stepOf(written) || training::stepOfShard(written)))
      abandoned->push_back(at->path().string());
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.step != b.step ? a.step > b.step : a.path < b.path;
  });
  return entries;
}

/// Returns true if the checkpoint references this shard file.
static bool isPartOf(const std::string &path, const Checkpoint &checkpoint) {
  const auto ranks = int64_t(checkpoint.parts.size());
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (fs::path(path).filename() ==
        training::shardFileName(checkpoint.step, rank, ranks))
      return true;
  return false;
}

Result<std::string> mpc::saveCheckpoint(const std::string &folder,
                                        const Checkpoint &checkpoint) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  Checkpoint described = checkpoint;
  training::recordShards(described);
  training::TensorFile file{checkpoint.tensors, described.facts};
  file.metadata[kVersionKey] = kVersion;
  file.metadata[kStepKey] = std::to_string(checkpoint.step);
  Result<std::string> bytes = training::encodeTensorFile(file);
  if (!bytes.ok())
    return bytes.status();
  std::string path =
      (fs::path(folder) / training::checkpointName(checkpoint.step)).string();
  if (Status status = writeWholeFile(path, {*bytes}); !status.ok())
    return status;

  // The new file is durable; the previous one is kept in case of later
  // corruption. Files of later steps are from an abandoned run.
  std::vector<std::string> remove;
  std::vector<Entry> parts;
  int64_t kept = -1;
  for (const Entry &entry : listFolder(folder, &parts, &remove)) {
    if (entry.path == path)
      continue;
    if (entry.step < checkpoint.step && kept < 0)
      kept = entry.step;
    else
      remove.push_back(entry.path);
  }
  // Delete shard files after the files that reference them.
  for (const Entry &part : parts)
    if (part.step != kept &&
        (part.step != checkpoint.step || !isPartOf(part.path, checkpoint)))
      remove.push_back(part.path);
  // Files that cannot be removed are skipped by the next run as well.
  std::error_code ignored;
  for (const std::string &old : remove)
    fs::remove(old, ignored);
  return path;
}

static Result<Checkpoint> readCheckpoint(const std::string &path,
                                         uint64_t mostBytes) {
  Result<std::string> bytes =
      readWholeFile(path, mostBytes + kMostSafetensorsHeader);
  if (!bytes.ok())
    return bytes.status();
  Result<training::TensorFile> file =
      training::decodeTensorFile(*bytes, path, /*needsDigest=*/true);
  if (!file.ok())
    return file.status();
  Checkpoint checkpoint;
  checkpoint.tensors = std::move(file->tensors);
  checkpoint.facts = std::move(file->metadata);
  std::string version = checkpoint.facts[kVersionKey];
  if (version != kVersion)
    return Status(StatusCode::InvalidArgument, path,
                  version.empty()
                      ? "is not a checkpoint of a training run"
                      : "is a checkpoint of version " + version +
                            ", but the supported version is " + kVersion);
  std::optional<int64_t> step =
      training::parseCount(checkpoint.facts[kStepKey]);
  if (!step)
    return Status(StatusCode::InvalidArgument, path,
                  "does not record its step");
  checkpoint.step = *step;
  checkpoint.facts.erase(kVersionKey);
  checkpoint.facts.erase(kStepKey);
  if (Status status = training::mergeShards(path, checkpoint, mostBytes);
      !status.ok())
    return status;
  return checkpoint;
}

Result<FoundCheckpoint> mpc::loadCheckpoint(const std::string &folder,
                                            uint64_t mostBytes) {
  FoundCheckpoint found;
  for (const Entry &entry : listFolder(folder)) {
    Result<Checkpoint> checkpoint = readCheckpoint(entry.path, mostBytes);
    if (!checkpoint.ok()) {
      found.passedOver.push_back(checkpoint.status());
      continue;
    }
    found.checkpoint = std::move(*checkpoint);
    found.path = entry.path;
    return found;
  }
  bool isTooLarge =
      std::any_of(found.passedOver.begin(), found.passedOver.end(),
                  [](const Status &status) {
                    return status.code() == StatusCode::ResourceExhausted;
                  });
  Status none(
      isTooLarge ? StatusCode::ResourceExhausted : StatusCode::NotFound, folder,
      isTooLarge ? "contains no intact checkpoint of a model of this size"
                 : "contains no intact checkpoint");
  for (const Status &status : found.passedOver)
    none = none.withNote(status.toString());
  return none;
}
