//===- ModelSource.h - model files and model bytes in memory ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_MODELSOURCE_H
#define MPC_JIT_MODELSOURCE_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace mpc {

/// A span of bytes and its owner.
struct SourceBytes {
  std::span<const std::byte> bytes;
  /// Keeps the bytes alive and unchanged; null if the caller does.
  std::shared_ptr<const void> owner = {};

  /// Copies `bytes`.
  static SourceBytes copyOf(std::span<const std::byte> bytes);
};

/// Callback that returns the contents of the external data file `name`. The
/// name is from the model and untrusted; absolute names and names with ".." are
/// refused before the call. Called once per name and source, by one thread at a
/// time.
using ExternalDataReader =
    std::function<Result<SourceBytes>(const std::string &name)>;

/// A model to compile: a file, or bytes in memory. A handle: copies share the
/// bytes. Thread-safe.
class ModelSource {
public:
  /// The file at `path`, read when it is compiled. External data is read from
  /// its folder.
  ModelSource(std::string path);
  ModelSource(const char *path) : ModelSource(std::string(path)) {}

  /// A model in memory. `name` is used in messages, and its extension selects
  /// the format: ".onnx" or ".mlir". Without `external` a model with external
  /// data is refused.
  static ModelSource fromBytes(std::string name, SourceBytes bytes,
                               ExternalDataReader external = {});

  /// The path, or the name given to fromBytes().
  const std::string &name() const;
  bool isFile() const;
  /// Returns the model's bytes: those given, or the file's current contents.
  /// Fails if the file cannot be read or is not a regular file, which might be
  /// endless.
  Result<SourceBytes> read() const;
  /// Returns true if a callback reads the external data.
  bool readsExternal() const;
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
