//===- SharedConstants.cpp - constants of several programs ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedConstants.h"

#include "mpc/Runtime/Buffer.h"

#include "llvm/Support/BLAKE3.h"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

using namespace mpc;

namespace {

/// Constants in use, by size and digest.
struct Table {
  using Key = std::pair<size_t, llvm::BLAKE3Result<32>>;
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const void>> entries;
};

} // namespace

/// Never destroyed: programs may outlive static objects.
static Table &table() {
  static Table &only = *new Table;
  return only;
}

std::shared_ptr<const void> mpc::shareConstant(llvm::ArrayRef<char> bytes) {
  // Below, an entry would be as large as the constant.
  constexpr size_t kLeastShared = 1024;
  auto copy = [&] {
    std::shared_ptr<void> data = allocateAligned(bytes.size());
    if (data &&
        !bytes.empty()) // memcpy from null is undefined, even for 0 bytes
      std::memcpy(data.get(), bytes.data(), bytes.size());
    return data;
  };
  if (bytes.size() < kLeastShared)
    return copy();
  Table::Key key(
      bytes.size(),
      llvm::BLAKE3::hash<32>(llvm::ArrayRef(
          reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())));
  Table &known = table();
  std::scoped_lock lock(known.mutex);
  std::weak_ptr<const void> &entry = known.entries[key];
  if (std::shared_ptr<const void> found = entry.lock())
    return found;
  std::shared_ptr<void> owner = copy();
  if (!owner)
    return nullptr;
  const void *data = owner.get();
  std::shared_ptr<const void> made(
      data, [key, owner = std::move(owner)](const void *) mutable {
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
