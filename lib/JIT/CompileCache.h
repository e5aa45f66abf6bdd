//===- CompileCache.h - finished compiles on disk ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_COMPILECACHE_H
#define MPC_LIB_JIT_COMPILECACHE_H

#include "mpc/JIT/Options.h"
#include "mpc/Target/TargetInfo.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// What a compile into a file gave: the file's bytes and all messages.
struct KeptCompile {
  std::vector<std::byte> file;
  std::vector<Diagnostic> messages;
};

/// One compile's place in the user's cache. Its key covers the bytes of the
/// model, of its external data and of the policy, every option, the targets,
/// and the versions of mpc (down to the build), LLVM, NVRTC and the prelude.
class CompileCache {
public:
  /// Reads and hashes the input. Keeps nothing where some of it cannot be read
  /// or where there is no folder for caches (Environment.h).
  CompileCache(const std::string &model, llvm::ArrayRef<TargetInfo> targets,
               const CompileOptions &options);

  std::optional<KeptCompile> find() const;
  void store(const KeptCompile &compile) const;

private:
  /// Empty where nothing is kept.
  std::string folder, key;
};

} // namespace mpc

#endif // MPC_LIB_JIT_COMPILECACHE_H
