//===- CompileCache.h - on-disk compile cache -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_COMPILECACHE_H
#define MPC_LIB_JIT_COMPILECACHE_H

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
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

/// Identifies this build of mpc, compiler and runtime, among builds of one
/// version; empty if unknown.
std::string buildIdentity();

/// A cached compile, opened. The bytes live as long as `file`.
struct CachedCompile {
  ExecutableFile file;
  llvm::ArrayRef<std::byte> bytes;
  /// Owner of the bytes.
  std::shared_ptr<const void> owner;
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
  /// Returns the store of the large constants of entries; null if the cache is
  /// disabled.
  std::shared_ptr<ConstantStore> weights() const;
  /// Returns the entry of an equal compile. Replays its diagnostics to the
  /// options' callback, without those of stage import if `spoken` (that stage
  /// already reported them).
  std::optional<CachedCompile> find(bool spoken = false) const;
  /// Sets the inputs that became constants: their values become part of the
  /// key.
  void fixInputs(llvm::ArrayRef<std::string> names);
  /// Returns an entry's file with all of its constants.
  static Result<std::vector<std::byte>> complete(const CachedCompile &kept);
  /// Stores an executable file, which may refer to weights(), and the
  /// diagnostics of its compile, unless the input has changed since the key was
  /// computed.
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
