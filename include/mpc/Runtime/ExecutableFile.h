//===- ExecutableFile.h - ahead-of-time compiled models ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads compiled models from .mpcx files, without a compiler.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_EXECUTABLEFILE_H
#define MPC_RUNTIME_EXECUTABLEFILE_H

#include "mpc/Runtime/Executable.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mpc {

/// Options of a load.
struct LoadOptions {
  /// True to allow the file's machine code to run in this process. Not needed
  /// to read and check a file; needed for a device that executes code.
  bool trusted = false;
  /// Instruction-set level to load ("avx2"); empty: the best that this CPU
  /// supports.
  std::string isa = {};
  /// Memory limit of the program in bytes, as in CompileOptions; 0: this
  /// machine's memory.
  int64_t maxMemory = 0;
};

/// Contents of the file for one target.
struct StoredTarget {
  /// "cpu:avx512", "cuda:sm_90a".
  std::string name;
  /// Number of distinct kernels.
  int64_t kernels = 0;
  /// Size of the machine code, in bytes.
  int64_t codeBytes = 0;
  int64_t constantBytes = 0;
  int64_t arenaBytes = 0;
  /// As in Program; depends on the target's fast types.
  std::vector<LayerTypes> layers = {};
};

/// Returns the `bytes` bytes of weights that `key` identifies, which are stored
/// outside of a file (ProgramConstant::key); null if there are none.
using WeightReader = std::function<std::shared_ptr<const void>(
    const std::string &key, size_t bytes)>;

/// An .mpcx file in memory, validated: its digest, its structure, and that all
/// indices are in range. Safe for untrusted bytes and executes nothing. Copies
/// share the memory, about the file's size, which lives as long as the last
/// copy or the last executable created from it. Thread-safe.
///
/// A file holds a model specialized for one or several sets of shapes. A handle
/// refers to one of these specializations, initially the first.
class ExecutableFile {
public:
  /// Argument shapes by name.
  using Shapes = std::map<std::string, std::vector<int64_t>>;

  /// Reads and verifies the file, including its SHA-256. Fails if it is not a
  /// regular file, not an .mpcx file, of another format version or corrupt.
  static Result<ExecutableFile> open(const std::string &path);
  /// The same from memory, which is copied. `name` is used in messages.
  static Result<ExecutableFile> fromBytes(std::span<const std::byte> bytes,
                                          const std::string &name);

  /// The same from memory without a copy: aligned to 64 bytes, immutable and
  /// kept alive by `owner`, such as a mapped file. A file that refers to
  /// weights needs `weights`.
  static Result<ExecutableFile> fromMemory(std::shared_ptr<const void> owner,
                                           std::span<const std::byte> bytes,
                                           const std::string &name,
                                           const WeightReader &weights = {});

  /// File name of the model.
  const std::string &model() const;
  const std::string &policy() const;
  /// Versions that produced the file: "mpc 0.1.0, LLVM 22.1.8".
  const std::string &compiler() const;

  /// Handles to all specializations, in compile order.
  std::vector<ExecutableFile> specialisations() const;
  /// Returns the specialization whose arguments have these shapes; arguments
  /// not in `shapes` may have any. Fails, listing those in the file, if there
  /// is none.
  Result<ExecutableFile> forShapes(const Shapes &shapes) const;

  // Facts of the specialization:

  /// Symbolic dimensions that were bound by name.
  const std::map<std::string, int64_t> &dims() const;
  std::span<const ProgramValue> arguments() const;
  std::span<const ProgramValue> results() const;
  std::span<const StoredTarget> targets() const;
  /// Number of terms of the longest reduction in the model.
  int64_t longestReduction() const;
  /// Narrowest float type of any value.
  ElementType narrowestType() const;
  /// Length of the longest chain of ops between an input and an output.
  int64_t longestChain() const;

  /// Creates an executable on `device` with the best code in the file. Maps the
  /// code into the process (under a millisecond). A GPU without machine code in
  /// the file uses the program for the next older architecture and compiles its
  /// source (seconds, once per machine). Fails if the device executes code and
  /// `options.trusted` is false, or if no target in the file fits this machine.
  Result<Executable> load(Device device, const LoadOptions &options = {}) const;

private:
  struct State;
  ExecutableFile(std::shared_ptr<const State> state, size_t number)
      : state(std::move(state)), number(number) {}
  std::shared_ptr<const State> state;
  /// Index of the specialization.
  size_t number;
};

/// Opens `path` and loads it on `device`.
Result<Executable> loadExecutable(Device device, const std::string &path,
                                  const LoadOptions &options = {});

} // namespace mpc

#endif // MPC_RUNTIME_EXECUTABLEFILE_H
