//===- ResultMemory.cpp - reuse of result memory --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResultMemory.h"

#include <utility>

using namespace mpc;
using namespace mpc::detail;

ResultMemory::ResultMemory(const Program &program) {
  for (const ProgramValue &value : program.results)
    if (std::optional<int64_t> bytes = value.type.byteCount();
        value.alias < 0 && bytes && size_t(*bytes) >= kLeast)
      limit += size_t(*bytes);
}

Result<Buffer> ResultMemory::allocate(const TensorType &type) {
  std::optional<int64_t> count = type.byteCount();
  if (!count || size_t(*count) < kLeast)
    return Buffer::allocate(type);
  auto bytes = size_t(*count);
  std::shared_ptr<void> memory;
  {
    std::lock_guard guard(lock);
    if (auto found = kept.find(bytes); found != kept.end()) {
      memory = std::move(found->second);
      kept.erase(found);
      bytesKept -= bytes;
    }
  }
  if (!memory)
    memory = allocateAligned(bytes);
  if (!memory)
    return Status(StatusCode::ResourceExhausted, "buffer",
                  "no memory for " + std::to_string(bytes) + " bytes of " +
                      type.toString());
  std::span<const std::byte> data(static_cast<const std::byte *>(memory.get()),
                                  bytes);
  return Buffer::fromHost(
      type, data, HostMemory::Borrow,
      [bytes, memory = std::move(memory), pool = weak_from_this()]() mutable {
        if (std::shared_ptr<ResultMemory> alive = pool.lock())
          alive->keep(bytes, std::move(memory));
      });
}

void ResultMemory::keep(size_t bytes, std::shared_ptr<void> memory) {
  std::lock_guard guard(lock);
  // A caller that holds several sets of results may return more than one run
  // needs.
  if (bytesKept + bytes > limit)
    return;
  kept.emplace(bytes, std::move(memory));
  bytesKept += bytes;
}

size_t ResultMemory::keptBytes() const {
  std::lock_guard guard(lock);
  return bytesKept;
}
