//===- MemoryObject.h - shared objects from memory --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_MEMORYOBJECT_H
#define MPC_LIB_RUNTIME_MEMORYOBJECT_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace mpc::detail {

/// A shared object that was loaded from bytes in memory, by way of a sealed
/// memfd: no file can be changed between the check of the bytes and their load.
/// Unloaded when the object goes.
class MemoryObject {
public:
  /// Loads `code`, which is trusted: its constructors run. Fails with code
  /// Unavailable at `where`.
  static Result<std::shared_ptr<MemoryObject>>
  load(std::span<const std::byte> code, const std::string &where);
  MemoryObject(const MemoryObject &) = delete;
  MemoryObject &operator=(const MemoryObject &) = delete;
  ~MemoryObject();

  /// The address of a symbol, or null.
  void *find(const std::string &symbol) const;
  /// A path of the code, for other processes, while this object lives.
  std::string path() const;

private:
  MemoryObject() = default;

  /// Open as long as the object is loaded: the dynamic linker knows objects by
  /// their paths, and a number that is used again would give the old object for
  /// the new file.
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_MEMORYOBJECT_H
