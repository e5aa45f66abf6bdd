//===- ResultMemory.h - memory of results, used again -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory that is new to a process costs a page fault per 4 KB and a clearing
// by the system: for the gradients of ten million parameters as much time as
// computing them takes. What results of earlier runs leave is therefore kept
// for the results of later ones, at most as much as the results of one run.
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

/// What one executable's results have left. Any thread may call, and may
/// release results, also behind the executable's end.
class ResultMemory : public std::enable_shared_from_this<ResultMemory> {
public:
  /// Smaller results are the allocator's, which keeps small memory itself.
  static constexpr size_t kLeast = size_t(64) << 10;

  explicit ResultMemory(const Program &program);

  /// A buffer of undefined contents, whose memory comes back here when its last
  /// copy goes. Fails as Buffer::allocate() does.
  Result<Buffer> allocate(const TensorType &type);

  /// Bytes that wait for a result.
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
