//===- FakeNccl.h - an NCCL without other GPUs ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Behaves as the library's documentation says on host addresses, on the streams
// of the recording driver. The other ranks are made up: what rank r sends
// follows from what this one does. Records calls, and fails on demand.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H

#include "CUDA/Nccl.h"

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::testing {

/// One fake at a time: the table's functions find it here.
class FakeNccl {
public:
  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl &) = delete;
  FakeNccl &operator=(const FakeNccl &) = delete;

  detail::Nccl table;
  /// What rank `rank` sends where this one sends `own`; of f32.
  std::function<float(int rank, float own)> sent = [](int rank, float own) {
    return own + 100 * float(rank);
  };
  /// Calls in their order, and with them "message of N f32 begins" where one is
  /// done.
  std::vector<std::string> calls;
  /// Streams that messages were given.
  std::vector<void *> streams;
  /// The calls of this name fail.
  std::string failing;
  /// What the ranks that joined were told, by rank.
  std::vector<std::pair<int, std::string>> ids;
  int alive = 0, depth = 0;
  int ranks = 0, rank = 0;
  std::mutex mutex;

  /// Notes a call; whether it has to fail.
  bool fails(const std::string &name);
};

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H
