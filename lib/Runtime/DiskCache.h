//===- DiskCache.h - on-disk cache ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_DISKCACHE_H
#define MPC_LIB_RUNTIME_DISKCACHE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::detail {

/// Returns the hexadecimal SHA-256 of a sequence of parts. Lengths are hashed
/// too, so that different sequences do not collide.
std::string contentKey(std::span<const std::string_view> parts);

/// Reads `size` bytes from a file; false on end of file or an error.
bool readAll(int descriptor, void *to, size_t size);

/// A mapped entry (its file may be deleted meanwhile) or a copy.
struct MappedEntry {
  /// Owner of the mapping or the copy.
  std::shared_ptr<const void> owner;
  std::span<const std::byte> head;
  /// Aligned to 64 bytes.
  std::span<const std::byte> body;
};

/// Why a folder is not used: another user could have planted code there, or it
/// cannot be written.
struct CacheRefusal {
  /// The unsafe folder: the cache's or its parent.
  std::string folder;
  /// What is wrong and what to do, a clause about the folder.
  std::string text;
};

/// Key-value store of byte strings as files in one folder. Thread-safe and
/// process-safe: entries are written atomically by a rename, and a corrupt
/// entry counts as missing. A cache that cannot write is a no-op.
///
/// Security: code is loaded from here, so no one else may write it. The folder
/// and its entries must belong to this process's user and not be writable by
/// others; so must its parent, which may also be root's, and may be writable by
/// others only with the sticky bit, as /tmp. Symbolic links are refused. All
/// checks are on the opened descriptors. An unsafe folder is neither read nor
/// written; an unsafe entry counts as missing.
class DiskCache {
public:
  /// An empty `folder` disables the cache. It is created with the first entry,
  /// with mode 0700, as are its parents. store() evicts least recently used
  /// entries beyond `mostBytes` in total.
  explicit DiskCache(std::string folder,
                     uint64_t mostBytes = uint64_t(INT64_MAX))
      : folder(std::move(folder)), mostBytes(mostBytes) {}

  std::optional<std::vector<std::byte>> find(const std::string &key) const;
  /// Returns true if the entry was written.
  bool store(const std::string &key, std::span<const std::byte> bytes) const;

  /// Maps an entry of storeParts() and marks it as used. The head is verified;
  /// of the body only the length, since its contents verify themselves, to read
  /// its bytes once.
  std::optional<MappedEntry> map(const std::string &key) const;
  /// Returns true if the entry was written; an entry larger than the limit is
  /// not.
  bool storeParts(const std::string &key, std::span<const std::byte> head,
                  std::span<const std::byte> body) const;

  /// Maps the `size` bytes of an entry of storePages() and marks it as used;
  /// null if there is none of this size. Reads nothing: pages are read when
  /// they are used, and shared among processes. Only the checksum of an entry
  /// from before the machine's last start is verified, or with `verifies` of
  /// every entry. Aligned to 64 bytes, large entries to huge pages.
  std::shared_ptr<const void> mapPages(const std::string &key, size_t size,
                                       bool verifies = false) const;
  /// Writes an entry of `size` bytes in place, without a copy in memory: `fill`
  /// writes into the file's zeroed pages. Returns the mapping; null if the
  /// entry cannot be written, exceeds the limit, or `fill` returns false.
  std::shared_ptr<const void>
  storePages(const std::string &key, size_t size,
             const std::function<bool(std::span<std::byte>)> &fill) const;

  /// Returns why nothing is read or written; nullopt if the folder does not
  /// exist, or if this process has returned the refusal before, so that a user
  /// is warned once.
  std::optional<CacheRefusal> newRefusal() const;
  /// Returns why the folder cannot be written, which store() passes over;
  /// nullopt if it can be, or if this process has returned a reason before.
  std::optional<CacheRefusal> newWriteFailure() const;

  /// Returns the file of an entry.
  std::string pathOf(const std::string &key) const;

private:
  bool write(const std::string &key,
             std::span<const std::span<const std::byte>> parts) const;
  void evict(const std::string &kept) const;

  std::string folder;
  uint64_t mostBytes;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_DISKCACHE_H
