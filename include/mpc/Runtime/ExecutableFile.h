//===- ExecutableFile.h - executables in files ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled models that come from a file (.mpcx) instead of a compiler.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_EXECUTABLEFILE_H
#define MPC_RUNTIME_EXECUTABLEFILE_H

#include "mpc/Runtime/Executable.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Choices for one load.
struct LoadOptions {
  /// Says that the file's machine code may run in this process. Reading and
  /// checking a file never needs this; a device that runs code does.
  bool trusted = false;
  /// The level to take ("avx2"); empty takes the best that this CPU has.
  std::string isa = {};
  /// Most bytes that the program may need, as in CompileOptions; 0 means no
  /// limit but the machine's.
  int64_t maxMemory = 0;
};

/// An argument or a result as the file describes it.
struct StoredValue {
  std::string name;
  TensorType type;
  /// "input", "parameter", "output", ...; empty where the model does not say.
  std::string role;
  /// Integers of this argument must lie in [0, integerBound): they index
  /// something. 0 where nothing is known.
  int64_t integerBound = 0;
  /// As in ProgramValue.
  std::string field = {};
  int64_t alias = -1;
  std::shared_ptr<const void> initial = {};
  std::vector<std::string> labels = {};
  std::optional<std::vector<int64_t>> shardOf = {};

  TensorType initialType() const {
    return shardOf ? TensorType{type.element, *shardOf} : type;
  }
};

/// What the file holds for one target.
struct StoredTarget {
  /// "cpu:avx512", "cuda:sm_90a".
  std::string name;
  /// Distinct kernels.
  int64_t kernels = 0;
  /// Machine code.
  int64_t codeBytes = 0;
  int64_t constantBytes = 0;
  int64_t arenaBytes = 0;
  /// As in Program: what a target does fast decides about types.
  std::vector<LayerTypes> layers = {};
};

/// An .mpcx file in memory, checked: its digest, its structure, and that every
/// number in it stays inside of what it refers to. Opening is safe for any
/// bytes from anywhere and runs nothing of them. Copies share the memory, which
/// is about the file's size and lives as long as the last copy or the last
/// executable made from it. All members may be called from any thread.
///
/// A file holds a model for one set of shapes or for several. A handle refers
/// to one of these specialisations, at first to the one compiled first.
class ExecutableFile {
public:
  /// Shapes of arguments by name.
  using Shapes = std::map<std::string, std::vector<int64_t>>;

  /// Reads the file once; costs its SHA-256. Fails where it is no regular file,
  /// no .mpcx file, of another format version or damaged.
  static Result<ExecutableFile> open(const std::string &path);
  /// The same from memory, which is copied. `name` is the place in messages.
  static Result<ExecutableFile> fromBytes(std::span<const std::byte> bytes,
                                          const std::string &name);

  /// The same of bytes that start at a multiple of 64, that nothing changes and
  /// that `owner` keeps: a file that is mapped.
  static Result<ExecutableFile> fromMemory(std::shared_ptr<const void> owner,
                                           std::span<const std::byte> bytes,
                                           const std::string &name);

  /// The name of the model's file.
  const std::string &model() const;
  const std::string &policy() const;
  /// The versions that made the file: "mpc 0.1.0, LLVM 22.1.8".
  const std::string &compiler() const;

  /// Handles to all specialisations, in the order of their compile.
  std::vector<ExecutableFile> specialisations() const;
  /// The specialisation whose arguments have these shapes; arguments that
  /// `shapes` does not name may have any. Fails, naming what the file has,
  /// where there is none.
  Result<ExecutableFile> forShapes(const Shapes &shapes) const;

  // Of the specialisation:

  /// The symbolic dimensions that were bound by name.
  const std::map<std::string, int64_t> &dims() const;
  std::span<const StoredValue> arguments() const;
  std::span<const StoredValue> results() const;
  std::span<const StoredTarget> targets() const;
  /// Terms of the longest sum in the model.
  int64_t longestReduction() const;
  /// The narrowest float type that a value passes.
  ElementType narrowestType() const;
  /// Most ops in a row between an input and an output.
  int64_t longestChain() const;

  /// An executable on `device` with the best code that the file has for it.
  /// Loading code maps it into the process (under a millisecond). A GPU without
  /// machine code in the file takes the program for the next older architecture
  /// and compiles its text (seconds, once per machine). Fails where
  /// the device runs code and `options.trusted` is not set, and where no target
  /// of the file suits this machine.
  Result<Executable> load(Device device, const LoadOptions &options = {}) const;

private:
  struct State;
  ExecutableFile(std::shared_ptr<const State> state, size_t number)
      : state(std::move(state)), number(number) {}
  std::shared_ptr<const State> state;
  /// Of the specialisation.
  size_t number;
};

/// Opens `path` and loads it on `device`.
Result<Executable> loadExecutable(Device device, const std::string &path,
                                  const LoadOptions &options = {});

} // namespace mpc

#endif // MPC_RUNTIME_EXECUTABLEFILE_H
