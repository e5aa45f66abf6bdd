//===- DiskConstantStore.h - constants by key, on disk ----------*- C++ -*-===//
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The programs of a model (prefill and decode, batch sizes, policies that store
// alike) have equal packed weights. The store holds them once: in this process,
// and on disk next to the compile cache, where they are mapped and not read.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_DISKCONSTANTSTORE_H
#define MPC_LIB_JIT_DISKCONSTANTSTORE_H

#include "Runtime/DiskCache.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

#include <memory>
#include <optional>
#include <string>

namespace mpc {

/// Store of one compile; all stores of the process share their memory. Bytes
/// are immutable, aligned as buffers are, and released with their last owner.
/// Facts of less than kLeastShared bytes stay until the process ends.
class DiskConstantStore : public ConstantStore {
public:
  /// Size in bytes from which constants are stored on disk.
  static constexpr size_t kLeastOnDisk = 4096;

  /// `disk`: the store's folder on disk (diskFolder()); nullopt: in memory
  /// only. `verifies`: verify the bytes on disk (CompileOptions::verifyFiles).
  explicit DiskConstantStore(std::optional<detail::DiskCache> disk = {},
                             bool verifies = false)
      : disk(std::move(disk)), verifies(verifies) {}

  std::shared_ptr<const void> find(llvm::StringRef key, size_t size) override;
  std::shared_ptr<const void> get(llvm::StringRef key, size_t size,
                                  const ConstantFill &fill) override;

  bool persists(llvm::StringRef key, size_t size) override;

  /// Returns the folder of the user's cache; nullopt if it is disabled.
  static std::optional<detail::DiskCache> diskFolder();

private:
  std::optional<detail::DiskCache> disk;
  bool verifies;
};

} // namespace mpc

#endif // MPC_LIB_JIT_DISKCONSTANTSTORE_H
