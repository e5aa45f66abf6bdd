//===- CompileCache.h - finished compiles on disk ---------------*- C++ -*-===//
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

/// A finished compile from the cache, opened. The bytes live as long as `file`.
struct KeptCompile {
  ExecutableFile file;
  llvm::ArrayRef<std::byte> bytes;
};

/// One compile's place in the user's cache. Its key covers the bytes of the
/// model, of its external data and of the policy, every option, the values of
/// inputs that became constants (which only the import tells), the targets,
/// this machine's CPU where one of them runs on it, and the versions of mpc
/// (down to the build), LLVM, NVRTC and the prelude.
class CompileCache {
public:
  /// Reads and hashes the input. Keeps nothing where some of it cannot be read
  /// or where there is no folder for caches (Environment.h).
  CompileCache(const ModelSource &model, llvm::ArrayRef<TargetInfo> targets,
               const CompileOptions &options);

  /// Whether store() would keep something.
  bool keeps() const { return !key.empty(); }
  /// What an equal compile gave. Its messages go to the options' listener, but
  /// those of stage import where that has `spoken` already.
  std::optional<KeptCompile> find(bool spoken = false) const;
  /// Tells which inputs became constants: their values join the key.
  void fixInputs(llvm::ArrayRef<std::string> names);
  /// Keeps the bytes of an executable file and what was said while it was made,
  /// unless the input has changed since.
  void store(llvm::ArrayRef<std::byte> bytes,
             llvm::ArrayRef<Diagnostic> messages) const;

private:
  /// The key of what the files hold now; empty where nothing can be kept.
  std::string keyOfInput() const;

  ModelSource model;
  std::vector<TargetInfo> targets;
  CompileOptions options;
  std::vector<std::string> fixed;
  /// Empty where nothing is kept.
  std::string folder, key;
};

/// A listener that keeps messages and passes them on.
std::function<void(const Diagnostic &)>
recordInto(std::vector<Diagnostic> &messages,
           std::function<void(const Diagnostic &)> next);

} // namespace mpc

#endif // MPC_LIB_JIT_COMPILECACHE_H
