//===- CompileCache.cpp - on-disk compile cache ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileCache.h"

#include "Compiler.h"
#include "DiskConstantStore.h"

#include "Runtime/CUDA/Nvrtc.h"
#include "Runtime/Container/Container.h"
#include "Runtime/DiskCache.h"
#include "Runtime/Environment.h"
#include "Runtime/LibraryFunctions.h"

#include "mpc/Import/ExternalFiles.h"
#include "mpc/Support/Files.h"
#include "mpc/Support/Holes.h"
#include "mpc/Target/CUDA/Host/HostKernel.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

using namespace mpc;
namespace json = llvm::json;

/// Returns size and modification time of the file that contains the code at
/// `address`; empty if unknown.
static std::string identityOf(const void *address) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(mpc::detail::fileOfCode(address), status))
    return {};
  return std::to_string(status.getSize()) + " " +
         std::to_string(
             status.getLastModificationTime().time_since_epoch().count());
}

std::string mpc::buildIdentity() {
  std::string compiler =
      identityOf(reinterpret_cast<const void *>(&buildIdentity));
  std::string runtime =
      identityOf(reinterpret_cast<const void *>(&mpc::detail::cacheFolder));
  return compiler.empty() || runtime.empty() ? "" : compiler + " " + runtime;
}

/// Number of bytes and BLAKE3 digest; BLAKE3 takes a fifth of SHA-256's time
/// for model weights.
static std::string digestText(int64_t bytes, llvm::BLAKE3 &hash) {
  return std::to_string(bytes) + " " + llvm::toHex(hash.final<32>());
}

/// Returns the digest of `count` bytes of an open file at offset `first`, or
/// nullopt if they cannot be read. Reads window by window, because mapped pages
/// would count as memory of this process; windows in holes are not read.
static std::optional<std::string> digestOf(int descriptor, int64_t first,
                                           int64_t count) {
  constexpr int64_t kWindow = int64_t(1) << 20;
  std::vector<char> window(size_t(std::min(count, kWindow)));
  llvm::BLAKE3 hash;
  for (int64_t at = first, end = first + count; at < end; at += kWindow) {
    int64_t size = std::min(end - at, kWindow);
    bool hole = isHole(descriptor, at, size);
    hash.update(hole ? "hole" : "data");
    if (hole)
      continue;
    if (readAt(descriptor, window.data(), size, at) != size)
      return std::nullopt;
    hash.update(llvm::StringRef(window.data(), size_t(size)));
  }
  return digestText(count, hash);
}

namespace {

/// Offset and length of each range, in bytes.
using Ranges = llvm::SmallVector<std::pair<int64_t, int64_t>>;

/// Components of a cache key, in order.
class KeyParts {
public:
  /// With `verifies`, large files are identified by their bytes as well.
  explicit KeyParts(bool verifies) : verifies(verifies) {}

  void add(std::string part) { parts.push_back(std::move(part)); }
  void add(int64_t number) { add(std::to_string(number)); }
  /// Adds a file: its bytes, or its identity if it is large and settled.
  /// If the bytes of a large file are read, adds only its `ranges` if given:
  /// holes make a sparse file arbitrarily long. Returns false if it cannot be
  /// read, has more than `most` bytes, is not a regular file (it might be
  /// endless), or is a link and `follow` is false.
  bool addFile(const std::string &path, int64_t most, bool follow = true,
               std::optional<Ranges> ranges = {}) {
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                                              (follow ? 0 : O_NOFOLLOW));
    if (descriptor < 0)
      return false;
    llvm::scope_exit close([&] { ::close(descriptor); });
    struct stat status;
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
      return false;
    std::string identity = status.st_size > kLargeFile && !verifies
                               ? fileIdentity(descriptor)
                               : "";
    if (!identity.empty()) {
      add(identity);
      return true;
    }
    if (status.st_size <= kLargeFile || !ranges)
      ranges = Ranges{{0, int64_t(status.st_size)}};
    for (auto [first, count] : *ranges) {
      if (first > status.st_size || count > status.st_size - first ||
          count > most)
        return false;
      std::optional<std::string> digest = digestOf(descriptor, first, count);
      if (!digest)
        return false;
      add(std::move(*digest));
    }
    return true;
  }
  void addBytes(llvm::ArrayRef<char> bytes) {
    llvm::BLAKE3 hash;
    hash.update(llvm::StringRef(bytes.data(), bytes.size()));
    add(digestText(int64_t(bytes.size()), hash));
  }
  std::string key() const {
    std::vector<std::string_view> views(parts.begin(), parts.end());
    return mpc::detail::contentKey(views);
  }

private:
  bool verifies;
  std::vector<std::string> parts;
};

} // namespace

/// Returns the name and features of this machine's CPU.
static std::string thisCpu() {
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (feature.second)
      features.push_back(feature.first().str());
  llvm::sort(features);
  return llvm::sys::getHostCPUName().str() + " " + llvm::join(features, ",");
}

/// Number of leading bytes that are checked for being text.
static constexpr size_t kHead = size_t(64) << 10;

/// Returns false if the model needs more memory than the options allow: the
/// import refuses it.
static bool addModel(KeyParts &parts, const ModelSource &model,
                     const CompileOptions &options) {
  int64_t most = memoryLimit(options);
  if (!checkFileMemory(model, most).ok())
    return false;
  Result<SourceBytes> read = readModel(model, options);
  if (!read.ok())
    return false;
  llvm::ArrayRef bytes(reinterpret_cast<const char *>(read->bytes.data()),
                       read->bytes.size());
  // The text of a checkpoint identifies large files by their times.
  if (options.verifyFiles && model.isFile() && model.shapedInputs())
    return false;
  bool isOnnx = model.extension() == ".onnx";
  // The importer refuses files above protobuf's limit and binary files.
  if (isOnnx
          ? !llvm::isInt<32>(bytes.size())
          : !checkText({bytes.data(), bytes.size()}, model.name(), kHead).ok())
    return false;
  if (!model.isFile() || int64_t(bytes.size()) <= kLargeFile)
    parts.addBytes(bytes);
  else if (!parts.addFile(model.name(), most))
    return false;
  // The name appears in messages.
  parts.add(model.name());
  if (!isOnnx)
    return true;
  auto external = onnxExternalFiles(bytes);
  if (!external || !checkExternalMemory(model, *read, most).ok())
    return false;
  for (const auto &[name, ranges] : *external) {
    // The importer refuses such paths with a diagnostic.
    if (llvm::sys::path::is_absolute(name) ||
        llvm::is_contained(llvm::make_range(llvm::sys::path::begin(name),
                                            llvm::sys::path::end(name)),
                           ".."))
      return false;
    parts.add(name);
    if (model.readsExternal()) {
      Result<std::span<const std::byte>> data = model.external(name);
      if (!data.ok())
        return false;
      parts.addBytes(
          {reinterpret_cast<const char *>(data->data()), data->size()});
      continue;
    }
    // The importer refuses the model.
    if (!model.isFile())
      return false;
    llvm::SmallString<256> path(llvm::sys::path::parent_path(model.name()));
    llvm::sys::path::append(path, name);
    if (!parts.addFile(path.str().str(), most, /*follow=*/false, ranges))
      return false;
  }
  return true;
}

static bool addOptions(KeyParts &parts, const CompileOptions &options) {
  // The readers refuse larger files.
  if (llvm::StringRef(options.policy).ends_with(".json") &&
      !parts.addFile(options.policy, kLargeFile))
    return false;
  if (!options.schedules.empty() &&
      !parts.addFile(options.schedules, kLargeFile))
    return false;
  parts.add(int64_t(options.sets.size()));
  for (const auto &[name, type] : options.sets) {
    parts.add(name);
    parts.add(type);
  }
  auto addDims = [&](const std::map<std::string, int64_t> &dims) {
    parts.add(int64_t(dims.size()));
    for (const auto &[name, extent] : dims) {
      parts.add(name);
      parts.add(extent);
    }
  };
  addDims(options.dims);
  parts.add(int64_t(options.specialisations.size()));
  for (const auto &dims : options.specialisations)
    addDims(dims);
  parts.add(int64_t(options.inputShapes.size()));
  for (const auto &[name, shape] : options.inputShapes) {
    parts.add(name);
    parts.add(int64_t(shape.size()));
    for (int64_t extent : shape)
      parts.add(extent);
  }
  parts.add(int64_t(options.caches.size()));
  for (const GrowingCache &cache : options.caches) {
    parts.add(cache.argument);
    parts.add(cache.result);
    parts.add(cache.axis);
    parts.add(cache.element ? int64_t(*cache.element) : -1);
    parts.add(int64_t(cache.apart));
  }
  parts.add(int64_t(options.padded.has_value()));
  if (options.padded) {
    parts.add(int64_t(options.padded->showsPadding));
    for (const auto &[length, shapes] : options.padded->lengths)
      parts.add(length);
  }
  parts.add(int64_t(options.chosen.size()));
  for (const ChosenEntry &entry : options.chosen) {
    parts.add(entry.result);
    parts.add(entry.axis);
    parts.add(entry.count);
    parts.add(entry.argument);
  }
  parts.add(options.batch.value_or(-1));
  // A cached compile has passed the memory limit.
  parts.add(options.maxMemory);
  return true;
}

/// Adds the value that the options give for input `name`.
static bool addValue(KeyParts &parts, const std::string &name,
                     const CompileOptions &options) {
  auto found = options.inputValues.find(name);
  if (found == options.inputValues.end())
    return false;
  const Buffer &value = found->second;
  parts.add(name);
  parts.add(value.type().toString());
  parts.add(std::string(static_cast<const char *>(value.data()), value.size()));
  return true;
}

/// Warns that the cache is not used or not written.
static void report(const CompileOptions &options,
                   const std::optional<mpc::detail::CacheRefusal> &refusal) {
  if (refusal && options.onDiagnostic)
    options.onDiagnostic({Diagnostic::Severity::Warning,
                          "cache",
                          refusal->folder,
                          "",
                          refusal->text,
                          {}});
}

CompileCache::CompileCache(const ModelSource &model,
                           llvm::ArrayRef<TargetInfo> targets,
                           const CompileOptions &options)
    : model(model), targets(targets), options(options) {
  std::string root = mpc::detail::cacheFolder();
  // Dumps need the stages to run.
  if (root.empty() || !options.dumpDir.empty() || !options.useCache ||
      options.onValidation)
    return;
  folder = root + "/compiles";
  report(options, mpc::detail::DiskCache(folder).newRefusal());
  key = keyOfInput();
}

std::string CompileCache::keyOfInput() const {
  std::string build = buildIdentity();
  if (build.empty())
    return {};
  KeyParts parts(options.verifyFiles);
  parts.add("compile 4");
  parts.add(MPC_VERSION);
  parts.add(build);
  parts.add(LLVM_VERSION_STRING);
  bool forGpu = false, forThisCpu = false;
  for (const TargetInfo &target : targets) {
    parts.add(printFlags(pipelineOptions(options, target)));
    forGpu |= target.isGpu();
    forThisCpu |= llvm::is_contained(TargetInfo::runnable(), target);
  }
  // A home directory may be shared by machines with different CPUs.
  parts.add(forThisCpu ? thisCpu() : "");
  if (forGpu) {
    Result<const mpc::detail::Nvrtc *> nvrtc = mpc::detail::installedNvrtc();
    if (!nvrtc.ok())
      return {};
    parts.add((*nvrtc)->versionText);
    parts.add(preludeText(PreludeSide::Device));
  }
  if (!addModel(parts, model, options) || !addOptions(parts, options))
    return {};
  for (const std::string &name : fixed)
    if (!addValue(parts, name, options))
      return {};
  return parts.key();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

// The header of an entry is the diagnostics as JSON; the body is the executable
// file, which has its own digest.

static json::Value toJson(const Diagnostic &message) {
  return json::Object{{"severity", int64_t(message.severity)},
                      {"stage", message.stage},
                      {"where", json::fixUTF8(message.where)},
                      {"op", json::fixUTF8(message.op)},
                      {"text", json::fixUTF8(message.text)},
                      {"unused", json::fixUTF8(message.unusedOverride)},
                      {"notes", json::Array([&] {
                         json::Array notes;
                         for (const std::string &note : message.notes)
                           notes.push_back(json::fixUTF8(note));
                         return notes;
                       }())}};
}

static std::optional<Diagnostic> fromJson(const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return std::nullopt;
  auto text = [&](const char *name) {
    return object->getString(name).value_or("").str();
  };
  Diagnostic message;
  message.severity =
      Diagnostic::Severity(object->getInteger("severity").value_or(0));
  message.stage = text("stage");
  message.where = text("where");
  message.op = text("op");
  message.text = text("text");
  message.unusedOverride = text("unused");
  if (const json::Array *notes = object->getArray("notes"))
    for (const json::Value &note : *notes)
      message.notes.push_back(note.getAsString().value_or("").str());
  return message;
}

/// Returns a reader of the weights that entries refer to.
static WeightReader weightReader(bool verifies) {
  return [verifies](const std::string &key, size_t bytes) {
    return DiskConstantStore(DiskConstantStore::diskFolder(), verifies)
        .find(key, bytes);
  };
}

std::shared_ptr<ConstantStore> CompileCache::weights() const {
  if (key.empty())
    return nullptr;
  return std::make_shared<DiskConstantStore>(DiskConstantStore::diskFolder(),
                                             options.verifyFiles);
}

void CompileCache::fixInputs(llvm::ArrayRef<std::string> names) {
  fixed.assign(names.begin(), names.end());
  if (!key.empty())
    key = keyOfInput();
}

std::optional<CachedCompile> CompileCache::find(bool spoken) const {
  if (key.empty())
    return std::nullopt;
  std::optional<mpc::detail::MappedEntry> entry =
      mpc::detail::DiskCache(folder, mpc::detail::cacheBytes()).map(key);
  if (!entry)
    return std::nullopt;
  auto parsed = json::parse(
      {reinterpret_cast<const char *>(entry->head.data()), entry->head.size()});
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return std::nullopt;
  }
  const json::Array *list = parsed->getAsArray();
  Result<ExecutableFile> file =
      ExecutableFile::fromMemory(entry->owner, entry->body, model.name(),
                                 weightReader(options.verifyFiles));
  if (!list || !file.ok())
    return std::nullopt;
  for (const json::Value &value : *list)
    if (auto message = fromJson(value); message && options.onDiagnostic &&
                                        !(spoken && message->stage == "import"))
      options.onDiagnostic(*message);
  return CachedCompile{std::move(*file), entry->body, entry->owner};
}

Result<std::vector<std::byte>>
CompileCache::complete(const CachedCompile &kept) {
  Result<container::Contents> contents =
      container::decode(kept.owner, kept.bytes, kept.file.model(),
                        weightReader(/*verifies=*/false));
  if (!contents.ok())
    return contents.status();
  return container::encode(std::move(*contents));
}

void CompileCache::store(llvm::ArrayRef<std::byte> bytes,
                         llvm::ArrayRef<Diagnostic> messages) const {
  // The input may have changed since the key was computed.
  if (key.empty() || keyOfInput() != key)
    return;
  json::Array list;
  for (const Diagnostic &message : messages)
    list.push_back(toJson(message));
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(list));
  mpc::detail::DiskCache cache(folder, mpc::detail::cacheBytes());
  if (!cache.storeParts(key, std::as_bytes(std::span(text)), bytes))
    report(options, cache.newWriteFailure());
}

std::function<void(const Diagnostic &)>
mpc::recordInto(std::vector<Diagnostic> &messages,
                std::function<void(const Diagnostic &)> next) {
  return [&messages, next = std::move(next)](const Diagnostic &message) {
    messages.push_back(message);
    if (next)
      next(message);
  };
}
