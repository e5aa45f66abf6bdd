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

/// A shared object loaded from bytes in memory through a sealed memfd, so that
/// no file can change between validation and load. Unloaded when the object is
/// destroyed.
class MemoryObject {
public:
  /// Loads `code`, which is trusted: its constructors run. Fails with code
  /// Unavailable at `where`.
  static Result<std::shared_ptr<MemoryObject>>
  load(std::span<const std::byte> code, const std::string &where);
  MemoryObject(const MemoryObject &) = delete;
  MemoryObject &operator=(const MemoryObject &) = delete;
  ~MemoryObject();

  /// Returns the address of a symbol, or null.
  void *find(const std::string &symbol) const;
  /// Returns a path of the code for other processes, valid during the lifetime
  /// of this object.
  std::string path() const;

private:
  MemoryObject() = default;

  /// Open while the object is loaded: the dynamic linker identifies objects by
  /// path, and a reused descriptor number would alias the old object.
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_MEMORYOBJECT_H
