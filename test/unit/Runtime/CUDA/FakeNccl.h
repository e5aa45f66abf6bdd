//===- FakeNccl.h - an NCCL without other GPUs ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Behaves as the library's documentation specifies, on host addresses and on
// the streams of the recording driver. The other ranks are synthetic: the data
// of rank r is derived from this rank's. Records calls, and fails on demand.
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
  /// Data that rank `rank` sends where this rank sends `own`, in f32.
  std::function<float(int rank, float own)> sent = [](int rank, float own) {
    return own + 100 * float(rank);
  };
  /// Calls in order, with "message of N f32 begins" at the start of each
  /// transfer.
  std::vector<std::string> calls;
  /// Streams that were passed to messages.
  std::vector<void *> streams;
  /// The calls of this name fail.
  std::string failing;
  /// Rank and unique id of each rank that joined.
  std::vector<std::pair<int, std::string>> ids;
  int alive = 0, depth = 0;
  int ranks = 0, rank = 0;
  std::mutex mutex;

  /// Notes a call; whether it has to fail.
  bool fails(const std::string &name);
};

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_FAKENCCL_H
