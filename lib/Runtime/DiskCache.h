//===- DiskCache.h - results kept between processes -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_DISKCACHE_H
#define MPC_LIB_RUNTIME_DISKCACHE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::detail {

/// SHA-256 of a sequence of parts, in hexadecimal digits. The length of each
/// part counts, so that no two sequences run together.
std::string contentKey(std::span<const std::string_view> parts);

/// An entry where it lies in its file, which may be deleted meanwhile, or in a
/// copy.
struct MappedEntry {
  /// Keeps the mapping or the copy.
  std::shared_ptr<const void> owner;
  std::span<const std::byte> head;
  /// At a multiple of 64 in memory.
  std::span<const std::byte> body;
};

/// Why a folder is not used: another user could have put code there.
struct CacheRefusal {
  /// The folder at fault: the cache's or the one that holds it.
  std::string folder;
  /// What is wrong and what to do, a clause about the folder.
  std::string text;
};

/// Byte strings by key in the files of one folder. Several threads and
/// processes may use a folder at once: entries appear whole, by a rename, and
/// one that is damaged counts as missing. A cache that cannot write is a cache
/// that keeps nothing.
///
/// Code is loaded from here, so nobody else may write it. The folder and its
/// entries belong to this process's user and are not writable by others; the
/// folder that holds it is the same, or root's, and others may write it only
/// where its sticky bit protects entries, as in /tmp. Neither folder nor entry
/// may be a symbolic link. What is checked is what is opened, by descriptor.
/// A folder that does not comply is neither read nor written, an entry counts
/// as missing.
class DiskCache {
public:
  /// An empty `folder` keeps nothing. It is made when the first entry is, with
  /// mode 0700, as are those above it.
  /// With `mostBytes`, store() deletes what was used longest ago until the
  /// folder's files have no more bytes together.
  explicit DiskCache(std::string folder,
                     uint64_t mostBytes = uint64_t(INT64_MAX))
      : folder(std::move(folder)), mostBytes(mostBytes) {}

  std::optional<std::vector<std::byte>> find(const std::string &key) const;
  /// Whether the entry was written.
  bool store(const std::string &key, std::span<const std::byte> bytes) const;

  /// An entry of storeParts(), which counts as used now. The head is verified;
  /// the body is as long as it was, and what is in it verifies itself, so that
  /// its bytes are read once.
  std::optional<MappedEntry> map(const std::string &key) const;
  /// Whether the entry was written; one that is larger than all may be is not.
  bool storeParts(const std::string &key, std::span<const std::byte> head,
                  std::span<const std::byte> body) const;

  /// Why nothing is read or written. Nothing where the folder is not there, or
  /// where this process gave the refusal before: a user is told once.
  std::optional<CacheRefusal> newRefusal() const;

  /// The file of an entry.
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
