//===- ModelSource.h - where a model comes from -----------------*- C++ -*-===//
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

/// Bytes and what keeps them.
struct SourceBytes {
  std::span<const std::byte> bytes;
  /// The bytes live, unchanged, as long as this; null where the caller sees to
  /// it.
  std::shared_ptr<const void> owner = {};

  /// Bytes of its own.
  static SourceBytes copyOf(std::span<const std::byte> bytes);
};

/// Gives all bytes of the data file that a model calls `name`. The name is the
/// model's and as little to be trusted as the model; names that are absolute or
/// hold ".." are refused before they come here. Called once per name and
/// source, by one thread at a time.
using ExternalDataReader =
    std::function<Result<SourceBytes>(const std::string &name)>;

/// A model to compile: a file, or bytes in memory. A handle: copies share the
/// bytes. All members may be called from any thread.
class ModelSource {
public:
  /// The file at `path`, which is read when it is compiled. Its external data
  /// lies in its folder.
  ModelSource(std::string path);
  ModelSource(const char *path) : ModelSource(std::string(path)) {}

  /// A model in memory. `name` stands in messages, and its end tells the
  /// format: ".onnx" or ".mlir". Without `external` a model whose weights lie
  /// in other files is refused.
  static ModelSource fromBytes(std::string name, SourceBytes bytes,
                               ExternalDataReader external = {});

  /// The path, or the name that the bytes were given.
  const std::string &name() const;
  bool isFile() const;
  /// The model's bytes: what was given, or what the file holds now. Fails where
  /// it is no regular file, which might have no end, or cannot be read.
  Result<SourceBytes> read() const;
  /// Whether the caller reads the external data.
  bool readsExternal() const;
  /// What the caller's reader gives for `name`; every call gives the same
  /// bytes.
  Result<std::span<const std::byte>> external(const std::string &name) const;

private:
  struct State;
  explicit ModelSource(std::shared_ptr<State> state)
      : state(std::move(state)) {}
  std::shared_ptr<State> state;
};

} // namespace mpc

#endif // MPC_JIT_MODELSOURCE_H
