//===- DiskConstantStore.cpp - constants by key, on disk
//-------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiskConstantStore.h"

#include "CompileCache.h"

#include "Runtime/Environment.h"

#include "mpc/Runtime/Buffer.h"

#include <array>
#include <map>
#include <mutex>
#include <utility>

using namespace mpc;

namespace {

/// Bytes in use in this process, by key and size.
struct Table {
  using Key = std::pair<std::string, size_t>;
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const void>> entries;
  std::map<Key, std::shared_ptr<const void>> facts;
};

} // namespace

/// Never destroyed: programs may outlive static objects.
static Table &table() {
  static Table &only = *new Table;
  return only;
}

/// Enters `bytes` under `key`, unless another thread has done so; returns the
/// entered bytes.
static std::shared_ptr<const void> enter(const Table::Key &key,
                                         std::shared_ptr<const void> bytes) {
  Table &known = table();
  std::scoped_lock lock(known.mutex);
  if (key.second < DiskConstantStore::kLeastShared)
    return known.facts.try_emplace(key, std::move(bytes)).first->second;
  std::weak_ptr<const void> &entry = known.entries[key];
  if (std::shared_ptr<const void> found = entry.lock())
    return found;
  const void *data = bytes.get();
  std::shared_ptr<const void> made(
      data, [key, owner = std::move(bytes)](const void *) mutable {
        Table &known = table();
        std::scoped_lock lock(known.mutex);
        // Another thread may have replaced the entry.
        auto place = known.entries.find(key);
        if (place != known.entries.end() && place->second.expired())
          known.entries.erase(place);
        owner.reset();
      });
  entry = made;
  return made;
}

/// Name of the bytes on disk: a recipe's result may change with the build.
static std::string fileOf(llvm::StringRef key) {
  static const std::string build = buildIdentity();
  std::array<std::string_view, 2> parts = {
      build, std::string_view(key.data(), key.size())};
  return mpc::detail::contentKey(parts);
}

std::optional<mpc::detail::DiskCache> DiskConstantStore::diskFolder() {
  std::string root = mpc::detail::cacheFolder();
  if (root.empty() || buildIdentity().empty())
    return std::nullopt;
  return mpc::detail::DiskCache(root + "/weights", mpc::detail::cacheBytes());
}

std::shared_ptr<const void> DiskConstantStore::find(llvm::StringRef key,
                                                    size_t size) {
  Table::Key name(key.str(), size);
  {
    Table &known = table();
    std::scoped_lock lock(known.mutex);
    if (auto fact = known.facts.find(name); fact != known.facts.end())
      return fact->second;
    if (auto entry = known.entries.find(name); entry != known.entries.end())
      if (std::shared_ptr<const void> found = entry->second.lock())
        return found;
  }
  if (!disk || size < kLeastOnDisk)
    return nullptr;
  std::shared_ptr<const void> mapped =
      disk->mapPages(fileOf(key), size, verifies);
  return mapped ? enter(name, std::move(mapped)) : nullptr;
}

std::shared_ptr<const void> DiskConstantStore::get(llvm::StringRef key,
                                                   size_t size,
                                                   const ConstantFill &fill) {
  if (std::shared_ptr<const void> found = find(key, size))
    return found;
  bool filled = true;
  auto write = [&](std::span<std::byte> target) {
    filled = llvm::succeeded(
        fill({reinterpret_cast<char *>(target.data()), target.size()}));
    return filled;
  };
  std::shared_ptr<const void> made;
  if (disk && size >= kLeastOnDisk)
    made = disk->storePages(fileOf(key), size, write);
  if (!made && filled) {
    std::shared_ptr<void> memory = allocateAligned(size);
    if (memory && write({static_cast<std::byte *>(memory.get()), size}))
      made = std::move(memory);
  }
  return made ? enter({key.str(), size}, std::move(made)) : nullptr;
}

bool DiskConstantStore::persists(llvm::StringRef key, size_t size) {
  return disk && size >= kLeastOnDisk &&
         disk->mapPages(fileOf(key), size) != nullptr;
}
