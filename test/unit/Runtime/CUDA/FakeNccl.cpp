//===- FakeNccl.cpp - an NCCL without other GPUs --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeNccl.h"

#include "RecordingDriver.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;
using namespace mpc::testing;

static FakeNccl *fake = nullptr;

static constexpr int kFailure = 1; // ncclUnhandledCudaError

bool FakeNccl::fails(const std::string &name) {
  std::lock_guard<std::mutex> lock(mutex);
  calls.push_back(name);
  return name == failing;
}

/// Of all ranks' elements.
static float reduce(int reduction, float own) {
  float result = 0;
  for (int rank = 0; rank < fake->ranks; ++rank) {
    float term = rank == fake->rank ? own : fake->sent(rank, own);
    if (rank == 0)
      result = term;
    else if (reduction == kNcclMin)
      result = std::min(result, term);
    else if (reduction == kNcclMax)
      result = std::max(result, term);
    else
      result += term;
  }
  return reduction == kNcclMean ? result / float(fake->ranks) : result;
}

/// Executes `work` on the GPU, in stream order.
static NcclResult enqueue(const std::string &name, void *stream,
                          std::function<void()> work) {
  if (fake->fails(name))
    return kFailure;
  fake->streams.push_back(stream);
  recording::enqueueWork(stream, name, std::move(work));
  return 0;
}

FakeNccl::FakeNccl() {
  fake = this;
  table.version = [](int *version) {
    *version = 22703;
    return 0;
  };
  table.errorString = [](NcclResult) { return "unhandled cuda error"; };
  table.uniqueId = [](NcclId *id) -> NcclResult {
    std::strcpy(id->bytes, "meet here");
    return fake->fails("ncclGetUniqueId") ? kFailure : 0;
  };
  table.commInitRank = [](NcclComm *comm, int ranks, NcclId id,
                          int rank) -> NcclResult {
    if (fake->fails("ncclCommInitRank"))
      return kFailure;
    std::lock_guard<std::mutex> lock(fake->mutex);
    fake->ids.emplace_back(rank, id.bytes);
    fake->ranks = ranks;
    fake->rank = rank;
    ++fake->alive;
    *comm = fake;
    return 0;
  };
  table.commDestroy = [](NcclComm) -> NcclResult {
    std::lock_guard<std::mutex> lock(fake->mutex);
    --fake->alive;
    return 0;
  };
  table.groupStart = []() -> NcclResult {
    ++fake->depth;
    return fake->fails("ncclGroupStart") ? kFailure : 0;
  };
  table.groupEnd = []() -> NcclResult {
    --fake->depth;
    return fake->fails("ncclGroupEnd") ? kFailure : 0;
  };
  table.allReduce = [](const void *send, void *receive, size_t count, int type,
                       int reduction, NcclComm, void *stream) -> NcclResult {
    return enqueue(
        "ncclAllReduce of " + std::to_string(count) + " by " +
            std::to_string(reduction) + " in " + std::to_string(type),
        stream, [=] {
          for (size_t i = 0; i < count; ++i)
            static_cast<float *>(receive)[i] =
                reduce(reduction, static_cast<const float *>(send)[i]);
        });
  };
  table.reduceScatter = [](const void *send, void *receive, size_t count,
                           int type, int reduction, NcclComm,
                           void *stream) -> NcclResult {
    return enqueue(
        "ncclReduceScatter of " + std::to_string(count) + " by " +
            std::to_string(reduction) + " in " + std::to_string(type),
        stream, [=] {
          const auto *piece =
              static_cast<const float *>(send) + count * size_t(fake->rank);
          for (size_t i = 0; i < count; ++i)
            static_cast<float *>(receive)[i] = reduce(reduction, piece[i]);
        });
  };
  // Bytes, which the tests' ranks have alike.
  table.allGather = [](const void *send, void *receive, size_t count, int,
                       NcclComm, void *stream) -> NcclResult {
    return enqueue("ncclAllGather of " + std::to_string(count), stream, [=] {
      for (int rank = 0; rank < fake->ranks; ++rank)
        std::memcpy(static_cast<char *>(receive) + size_t(rank) * count, send,
                    count);
    });
  };
  table.broadcast = [](const void *send, void *receive, size_t count, int,
                       int root, NcclComm, void *stream) -> NcclResult {
    return enqueue("ncclBroadcast of " + std::to_string(count) + " from " +
                       std::to_string(root),
                   stream, [=] { std::memcpy(receive, send, count); });
  };
}

FakeNccl::~FakeNccl() { fake = nullptr; }
