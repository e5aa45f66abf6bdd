//===- ModelSource.cpp - model files and model bytes in memory ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/ModelSource.h"

#include "mpc/Import/Checkpoint.h"
#include "mpc/Support/Files.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <map>
#include <mutex>
#include <optional>
#include <vector>

using namespace mpc;

struct ModelSource::State {
  std::string name;
  /// Nullopt if `name` is a file path.
  std::optional<SourceBytes> model;
  ExternalDataReader reader;
  /// Of a model that depends on the shapes of its inputs.
  std::vector<ModelInput> inputs;
  std::map<std::string, int64_t> defaultDims;
  ShapedTextReader text;
  /// True if `name` is a checkpoint; open() sets the rest.
  bool isCheckpoint = false;
  std::once_flag once;
  Status opened;
  std::vector<int64_t> endIds;
  std::function<std::optional<ComputedBytes>(const std::string &)> computed;
  /// Cache of the callback's results; the mutex also serializes the callback.
  std::mutex mutex;
  std::map<std::string, Result<SourceBytes>> external;

  /// Opens a checkpoint at the first call; returns the failure, if any.
  const Status &open();
};

const Status &ModelSource::State::open() {
  if (!isCheckpoint)
    return opened;
  std::call_once(once, [&] {
    Result<std::shared_ptr<const Checkpoint>> result = Checkpoint::open(name);
    if (!result.ok()) {
      opened = result.status();
      return;
    }
    const std::shared_ptr<const Checkpoint> &checkpoint = *result;
    for (const Checkpoint::Input &input : checkpoint->inputs())
      inputs.push_back({input.name, input.type.element, input.type.shape,
                        input.symbols, input.isOptional});
    defaultDims = {{kPastDim, 0}};
    endIds = checkpoint->endIds();
    text = [checkpoint](const InputShapes &shapes) -> Result<SourceBytes> {
      Result<std::string> written = checkpoint->text(shapes);
      if (!written.ok())
        return written.status();
      return SourceBytes::copyOf(std::as_bytes(std::span(*written)));
    };
    reader = [checkpoint](const std::string &data) -> Result<SourceBytes> {
      Result<Checkpoint::Bytes> bytes = checkpoint->external(data);
      if (!bytes.ok())
        return bytes.status();
      if (bytes->compute)
        return Status(StatusCode::InvalidArgument, data, "is computed");
      return SourceBytes{{bytes->data.get(), bytes->size}, bytes->data};
    };
    computed =
        [checkpoint](const std::string &data) -> std::optional<ComputedBytes> {
      Result<Checkpoint::Bytes> bytes = checkpoint->external(data);
      if (!bytes.ok() || !bytes->compute)
        return std::nullopt;
      return ComputedBytes{bytes->size,
                           [checkpoint, write = std::move(bytes->compute)](
                               std::span<std::byte> target) { write(target); }};
    };
  });
  return opened;
}

SourceBytes SourceBytes::copyOf(std::span<const std::byte> bytes) {
  auto owned =
      std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  std::span<const std::byte> view = *owned;
  return {view, std::move(owned)};
}

ExternalDataReader mpc::readFilesIn(std::string folder) {
  return [folder = std::move(folder)](
             const std::string &name) -> Result<SourceBytes> {
    Result<InputFile> file = InputFile::openInside(folder, name);
    if (!file.ok())
      return file.status();
    if (file->size() > uint64_t(kLargeFile)) {
      Result<std::shared_ptr<const std::byte>> mapped = file->map();
      if (!mapped.ok())
        return mapped.status();
      return SourceBytes{{mapped->get(), size_t(file->size())}, *mapped};
    }
    auto bytes = std::make_shared<std::vector<std::byte>>(file->size());
    if (Status status = file->read(bytes->data(), bytes->size()); !status.ok())
      return status;
    std::span<const std::byte> view = *bytes;
    return SourceBytes{view, std::move(bytes)};
  };
}

ModelSource::ModelSource(std::string path) : state(std::make_shared<State>()) {
  state->name = std::move(path);
  state->isCheckpoint = Checkpoint::isCheckpoint(state->name);
}

ModelSource ModelSource::fromBytes(std::string name, SourceBytes bytes,
                                   ExternalDataReader external) {
  auto state = std::make_shared<State>();
  state->name = std::move(name);
  state->model = std::move(bytes);
  state->reader = std::move(external);
  return ModelSource(std::move(state));
}

ModelSource ModelSource::fromShapes(std::string name,
                                    std::vector<ModelInput> inputs,
                                    ShapedTextReader text,
                                    ExternalDataReader external) {
  auto state = std::make_shared<State>();
  state->name = std::move(name);
  state->inputs = std::move(inputs);
  state->text = std::move(text);
  state->reader = std::move(external);
  return ModelSource(std::move(state));
}

const std::string &ModelSource::name() const { return state->name; }

bool ModelSource::isFile() const {
  return state->isCheckpoint || (!state->model && !state->text);
}

std::string ModelSource::extension() const {
  if (state->isCheckpoint || state->text)
    return ".mlir";
  return llvm::sys::path::extension(state->name).str();
}

bool ModelSource::readsExternal() const {
  return state->open().ok() && bool(state->reader);
}

const std::vector<ModelInput> *ModelSource::shapedInputs() const {
  return state->open().ok() && state->text ? &state->inputs : nullptr;
}

const std::map<std::string, int64_t> &ModelSource::defaultDims() const {
  (void)state->open();
  return state->defaultDims;
}

std::vector<int64_t> ModelSource::endIds() const {
  (void)state->open();
  return state->endIds;
}

Result<SourceBytes> ModelSource::read(const InputShapes &shapes) const {
  if (const Status &opened = state->open(); !opened.ok())
    return opened;
  return state->text(shapes);
}

Result<SourceBytes> ModelSource::read() const {
  if (const Status &opened = state->open(); !opened.ok())
    return opened;
  if (state->model)
    return *state->model;
  if (state->text)
    return Status(StatusCode::InvalidArgument, state->name,
                  "is written for given shapes of its inputs only");
  llvm::sys::fs::file_status status;
  std::error_code error = llvm::sys::fs::status(state->name, status);
  if (!error && status.type() != llvm::sys::fs::file_type::regular_file)
    return Status(StatusCode::InvalidArgument, state->name,
                  "is not a regular file; give a model file");
  if (!error) {
    // Copies small files: accessing a mapped page of a file that another
    // process truncated raises SIGBUS.
    bool isSmall = status.getSize() <= uint64_t(kLargeFile);
    // LLVM maps even volatile files unless they need a terminator.
    auto file = llvm::MemoryBuffer::getFile(state->name, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/isSmall,
                                            /*IsVolatile=*/isSmall);
    if (file) {
      std::shared_ptr<llvm::MemoryBuffer> owner = std::move(*file);
      return SourceBytes{std::as_bytes(std::span(owner->getBufferStart(),
                                                 owner->getBufferSize())),
                         owner};
    }
    error = file.getError();
  }
  return Status(StatusCode::NotFound, state->name,
                "cannot be opened: " + error.message());
}

std::optional<ComputedBytes>
ModelSource::computed(const std::string &name) const {
  return state->open().ok() && state->computed ? state->computed(name)
                                               : std::nullopt;
}

Result<std::span<const std::byte>>
ModelSource::external(const std::string &name) const {
  std::scoped_lock lock(state->mutex);
  auto found = state->external.find(name);
  if (found == state->external.end())
    found = state->external.emplace(name, state->reader(name)).first;
  if (!found->second.ok())
    return found->second.status();
  return found->second->bytes;
}
