//===- Checkpoint.cpp - the state of a training run in files --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/Checkpoint.h"

#include "TensorFile.h"

#include "mpc/Support/Files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

using namespace mpc;
namespace fs = std::filesystem;

/// What facts beside the caller's say.
static constexpr const char *kVersionKey = "mpc.checkpoint";
static constexpr const char *kVersion = "1";
static constexpr const char *kStepKey = "mpc.step";

static constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

static std::optional<int64_t> parseNumber(std::string_view text) {
  int64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return std::nullopt;
  return number;
}

/// The step in a checkpoint's file name.
static std::optional<int64_t> stepOf(std::string_view name) {
  if (name.size() <= kPrefix.size() + kSuffix.size() ||
      !name.starts_with(kPrefix) || !name.ends_with(kSuffix))
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return parseNumber(name);
}

namespace {

struct Entry {
  int64_t step;
  std::string path;
};

} // namespace

/// The checkpoints of a folder, newest first; `abandoned` receives temporary
/// files of writers that were stopped.
static std::vector<Entry> listFolder(const std::string &folder,
                                     std::vector<std::string> *abandoned) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::string name = at->path().filename().string();
    if (std::optional<int64_t> step = stepOf(name))
      entries.push_back({*step, at->path().string()});
    // mkostemp appends a dot and six characters.
    else if (abandoned && name.size() > 7 && name[name.size() - 7] == '.' &&
             stepOf(std::string_view(name).substr(0, name.size() - 7)))
      abandoned->push_back(at->path().string());
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return a.step != b.step ? a.step > b.step : a.path < b.path;
  });
  return entries;
}

Result<std::string> mpc::saveCheckpoint(const std::string &folder,
                                        const Checkpoint &checkpoint) {
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  training::TensorFile file{checkpoint.tensors, checkpoint.facts};
  file.metadata[kVersionKey] = kVersion;
  file.metadata[kStepKey] = std::to_string(checkpoint.step);
  Result<std::string> bytes = training::encodeTensorFile(file);
  if (!bytes.ok())
    return bytes.status();
  // Twelve digits keep names in the order of steps for people.
  char name[64];
  std::snprintf(name, sizeof(name), "step-%012lld.safetensors",
                static_cast<long long>(checkpoint.step));
  std::string path = (fs::path(folder) / name).string();
  if (Status status = writeWholeFile(path, {*bytes}); !status.ok())
    return status;

  // The new file is on the disk; the one before it stays in case it is damaged
  // later. Files of later steps are of a run that was abandoned.
  std::vector<std::string> remove;
  bool keptOne = false;
  for (const Entry &entry : listFolder(folder, &remove)) {
    if (entry.path == path)
      continue;
    bool keep = entry.step < checkpoint.step && !keptOne;
    keptOne |= keep;
    if (!keep)
      remove.push_back(entry.path);
  }
  // What cannot be removed is passed over by the next run as well.
  std::error_code ignored;
  for (const std::string &old : remove)
    fs::remove(old, ignored);
  return path;
}

static Result<Checkpoint> readCheckpoint(const std::string &path) {
  Result<std::string> bytes = readWholeFile(path);
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
                      ? "is no checkpoint of a training run"
                      : "is a checkpoint of version " + version +
                            ", but version " + kVersion + " is read");
  std::optional<int64_t> step = parseNumber(checkpoint.facts[kStepKey]);
  if (!step)
    return Status(StatusCode::InvalidArgument, path,
                  "does not say after how many steps it was written");
  checkpoint.step = *step;
  checkpoint.facts.erase(kVersionKey);
  checkpoint.facts.erase(kStepKey);
  return checkpoint;
}

Result<FoundCheckpoint> mpc::loadCheckpoint(const std::string &folder) {
  FoundCheckpoint found;
  for (const Entry &entry : listFolder(folder, nullptr)) {
    Result<Checkpoint> checkpoint = readCheckpoint(entry.path);
    if (!checkpoint.ok()) {
      found.passedOver.push_back(checkpoint.status());
      continue;
    }
    found.checkpoint = std::move(*checkpoint);
    found.path = entry.path;
    return found;
  }
  Status none(StatusCode::NotFound, folder, "holds no intact checkpoint");
  for (const Status &status : found.passedOver)
    none = none.withNote(status.toString());
  return none;
}
