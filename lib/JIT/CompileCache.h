//===- CompileCache.h - on-disk compile cache -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_COMPILECACHE_H
#define MPC_LIB_JIT_COMPILECACHE_H

#include "mpc/JIT/ModelSource.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/ExecutableFile.h"
#include "mpc/Target/TargetInfo.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// A cached compile, opened. The bytes live as long as `file`.
struct CachedCompile {
  ExecutableFile file;
  llvm::ArrayRef<std::byte> bytes;
};

/// Entry of one compile in the user's on-disk cache. The key covers the bytes
/// of the model, its external data and the policy, all options, the values of
/// inputs that became constants (known only after import), the targets, this
/// machine's CPU if a target depends on it, and the versions of mpc (down to
/// the build), LLVM, NVRTC and the prelude.
class CompileCache {
public:
  /// Reads and hashes the input. Disabled if part of it cannot be read or there
  /// is no cache folder (Environment.h).
  CompileCache(const ModelSource &model, llvm::ArrayRef<TargetInfo> targets,
               const CompileOptions &options);

  /// Returns true if store() would write an entry.
  bool keeps() const { return !key.empty(); }
  /// Returns the entry of an equal compile. Replays its diagnostics to the
  /// options' callback, without those of stage import if `spoken` (that stage
  /// already reported them).
  std::optional<CachedCompile> find(bool spoken = false) const;
  /// Sets the inputs that became constants: their values become part of the
  /// key.
  void fixInputs(llvm::ArrayRef<std::string> names);
  /// Stores an executable file and the diagnostics of its compile, unless the
  /// input has changed since the key was computed.
  void store(llvm::ArrayRef<std::byte> bytes,
             llvm::ArrayRef<Diagnostic> messages) const;

private:
  /// Returns the key of the current input; empty if the cache is disabled.
  std::string keyOfInput() const;

  ModelSource model;
  std::vector<TargetInfo> targets;
  CompileOptions options;
  std::vector<std::string> fixed;
  /// Empty if the cache is disabled.
  std::string folder, key;
};

/// Returns a callback that records diagnostics and forwards them.
std::function<void(const Diagnostic &)>
recordInto(std::vector<Diagnostic> &messages,
           std::function<void(const Diagnostic &)> next);

} // namespace mpc

#endif // MPC_LIB_JIT_COMPILECACHE_H
