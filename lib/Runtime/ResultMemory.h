//===- ResultMemory.h - reuse of result memory ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fresh memory costs a page fault per 4 KB and zeroing by the kernel: for the
// gradients of ten million parameters as much time as computing them. Memory of
// released results is therefore pooled for later runs, at most as much as the
// results of one run.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_RESULTMEMORY_H
#define MPC_LIB_RUNTIME_RESULTMEMORY_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Program.h"

#include <map>
#include <memory>
#include <mutex>

namespace mpc::detail {

/// Pool of released result memory of one executable. Thread-safe; results may
/// be released after the executable is destroyed.
class ResultMemory : public std::enable_shared_from_this<ResultMemory> {
public:
  /// Minimum pooled size, in bytes; the system allocator reuses smaller blocks
  /// itself.
  static constexpr size_t kLeast = size_t(64) << 10;

  explicit ResultMemory(const Program &program);

  /// Allocates an uninitialized buffer whose memory returns to the pool when
  /// its last copy is destroyed. Fails as Buffer::allocate() does.
  Result<Buffer> allocate(const TensorType &type);

  /// Size of the pooled memory, in bytes.
  size_t keptBytes() const;

private:
  void keep(size_t bytes, std::shared_ptr<void> memory);

  size_t limit = 0;
  mutable std::mutex lock;
  /// Guarded by `lock`.
  size_t bytesKept = 0;
  std::multimap<size_t, std::shared_ptr<void>> kept;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_RESULTMEMORY_H
