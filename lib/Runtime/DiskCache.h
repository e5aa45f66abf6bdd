//===- DiskCache.h - results kept between processes -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_DISKCACHE_H
#define MPC_LIB_RUNTIME_DISKCACHE_H

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::detail {

/// SHA-256 of a sequence of parts, in hexadecimal digits. The length of each
/// part counts, so that no two sequences run together.
std::string contentKey(std::span<const std::string_view> parts);

/// Byte strings by key in the files of one folder. Several threads and
/// processes may use a folder at once: entries appear whole, by a rename, and
/// one that is damaged counts as missing. A cache that cannot write is a cache
/// that keeps nothing.
class DiskCache {
public:
  /// An empty `folder` keeps nothing. It is made when the first entry is.
  explicit DiskCache(std::string folder) : folder(std::move(folder)) {}

  std::optional<std::vector<std::byte>> find(const std::string &key) const;
  /// Whether the entry was written.
  bool store(const std::string &key, std::span<const std::byte> bytes) const;
  /// The file of an entry.
  std::string pathOf(const std::string &key) const;

private:
  std::string folder;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_DISKCACHE_H
