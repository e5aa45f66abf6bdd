//===- ModelSource.h - model files and model bytes in memory ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_MODELSOURCE_H
#define MPC_JIT_MODELSOURCE_H

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// A span of bytes and its owner.
struct SourceBytes {
  std::span<const std::byte> bytes;
  /// Keeps the bytes alive and unchanged; null if the caller does.
  std::shared_ptr<const void> owner = {};

  /// Copies `bytes`.
  static SourceBytes copyOf(std::span<const std::byte> bytes);
};

/// Bytes that are computed each time they are needed, such as weights that a
/// file has in quantized blocks.
struct ComputedBytes {
  size_t size = 0;
  /// Writes the bytes into memory of this size. Thread-safe.
  std::function<void(std::span<std::byte>)> compute = {};
};

/// Callback that returns the contents of the external data file `name`. The
/// name is from the model and untrusted; absolute names and names with ".." are
/// refused before the call. Called once per name and source, by one thread at a
/// time.
using ExternalDataReader =
    std::function<Result<SourceBytes>(const std::string &name)>;

/// Returns a callback that reads files in `folder` and below: maps large ones,
/// copies small ones. Refuses symbolic links, devices, and files with several
/// hard links, through which a name could leave the folder.
ExternalDataReader readFilesIn(std::string folder);

/// An input as the model declares it.
struct ModelInput {
  std::string name;
  /// Element type; nullopt if no buffer has the declared type.
  std::optional<ElementType> element;
  /// Extents; -1 for a dynamic one. Also empty if a file declares no rank.
  std::vector<int64_t> shape;
  /// Name of each symbolic dimension (CompileOptions::dims); empty if it is
  /// fixed or unnamed.
  std::vector<std::string> symbols;
  /// True if a call may leave it out, as the KV caches of a decoder that starts
  /// a text; the program for such a call lacks it.
  bool isOptional = false;
};

/// Shapes of inputs by name.
using InputShapes = std::map<std::string, std::vector<int64_t>>;

/// Callback that returns the text of a model for the shapes of all its inputs,
/// and fails if the model does not take them. Called once or more per compile,
/// on the compiling thread.
using ShapedTextReader =
    std::function<Result<SourceBytes>(const InputShapes &shapes)>;

/// A model to compile: a file, a folder, or bytes in memory. A handle: copies
/// share the bytes. Thread-safe.
class ModelSource {
public:
  /// The file at `path`, read when it is compiled. External data is read from
  /// its folder. If `path` is a folder, the Hugging Face model in it
  /// (config.json and safetensors files), opened once, at its first use; its
  /// text is written for each set of shapes.
  ModelSource(std::string path);
  ModelSource(const char *path) : ModelSource(std::string(path)) {}

  /// A model in memory. `name` is used in messages, and its extension selects
  /// the format: ".onnx" or ".mlir". Without `external` a model with external
  /// data is refused. Names of external data must identify it (a digest), since
  /// the compile cache compares the bytes only. A StableHLO module with the
  /// attribute `mpc.external = ["", "NAME", ...]`, one string per argument of
  /// @main, has the data NAME in place of that argument.
  static ModelSource fromBytes(std::string name, SourceBytes bytes,
                               ExternalDataReader external = {});

  /// A model that a callback writes as text of the mpc dialect for each set of
  /// shapes of its `inputs`, whose dynamic dimensions all have symbols. A
  /// constant with the attribute `mpc.external = "NAME"` has the bytes that
  /// `external` returns for NAME; NAME must identify them (a digest), since the
  /// compile cache compares the text only.
  static ModelSource fromShapes(std::string name,
                                std::vector<ModelInput> inputs,
                                ShapedTextReader text,
                                ExternalDataReader external = {});

  /// The path, or the name given to the function that made the source.
  const std::string &name() const;
  /// Returns true if name() is a path, of a file or a folder.
  bool isFile() const;
  /// Returns the format: ".mlir" for a text that is written for given shapes,
  /// else the extension of name().
  std::string extension() const;
  /// Returns the model's bytes: those given, or the file's current contents.
  /// Fails if the file cannot be read or is not a regular file, which might be
  /// endless.
  Result<SourceBytes> read() const;
  /// Returns the inputs of a model that depends on their shapes, else null;
  /// also null if its folder cannot be opened, which read() reports.
  const std::vector<ModelInput> *shapedInputs() const;
  /// Extents of symbolic dimensions of such a model that may be left unbound.
  const std::map<std::string, int64_t> &defaultDims() const;
  /// Tokens that end a text, as the model's folder says; may be empty.
  std::vector<int64_t> endIds() const;
  /// Returns the text of such a model for `shapes`.
  Result<SourceBytes> read(const InputShapes &shapes) const;
  /// Returns true if a callback reads the external data.
  bool readsExternal() const;
  /// Returns the external data `name` if it is computed, which is not cached;
  /// external() fails for it.
  std::optional<ComputedBytes> computed(const std::string &name) const;
  /// Returns the callback's contents of `name`, which are cached.
  Result<std::span<const std::byte>> external(const std::string &name) const;

private:
  struct State;
  explicit ModelSource(std::shared_ptr<State> state)
      : state(std::move(state)) {}
  std::shared_ptr<State> state;
};

} // namespace mpc

#endif // MPC_JIT_MODELSOURCE_H
