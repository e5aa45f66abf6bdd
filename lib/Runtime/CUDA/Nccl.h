//===- Nccl.h - entry points of NCCL ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of NCCL's ABI that mpc uses, from NVIDIA's documentation (NVIDIA
// Collective Communications Library, API). The build needs no NCCL header.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_NCCL_H
#define MPC_LIB_RUNTIME_CUDA_NCCL_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <string>

namespace mpc::detail {

/// An ncclResult_t; 0 is success.
using NcclResult = int;
/// An ncclComm_t.
using NcclComm = void *;
/// An ncclUniqueId, passed by value.
struct NcclId {
  char bytes[128] = {};
};

/// ncclDataType_t.
enum NcclType : int {
  kNcclInt8 = 0,
  kNcclInt32 = 2,
  kNcclInt64 = 4,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBFloat16 = 9,
};

/// ncclRedOp_t.
enum NcclReduction : int {
  kNcclSum = 0,
  kNcclMax = 2,
  kNcclMin = 3,
  kNcclMean = 4,
};

struct Nccl {
  NcclResult (*version)(int *version) = nullptr;
  const char *(*errorString)(NcclResult error) = nullptr;
  NcclResult (*uniqueId)(NcclId *id) = nullptr;
  NcclResult (*commInitRank)(NcclComm *comm, int ranks, NcclId id,
                             int rank) = nullptr;
  NcclResult (*commDestroy)(NcclComm comm) = nullptr;
  NcclResult (*groupStart)() = nullptr;
  NcclResult (*groupEnd)() = nullptr;
  NcclResult (*allReduce)(const void *send, void *receive, size_t count,
                          int type, int reduction, NcclComm comm,
                          void *stream) = nullptr;
  NcclResult (*reduceScatter)(const void *send, void *receive,
                              size_t receiveCount, int type, int reduction,
                              NcclComm comm, void *stream) = nullptr;
  NcclResult (*allGather)(const void *send, void *receive, size_t sendCount,
                          int type, NcclComm comm, void *stream) = nullptr;
  NcclResult (*broadcast)(const void *send, void *receive, size_t count,
                          int type, int root, NcclComm comm,
                          void *stream) = nullptr;
};

/// Calls `visit(name, pointer)` for every function of `nccl`, an Nccl.
template <typename Table, typename Visit>
void visitNcclEntryPoints(Table &nccl, Visit &&visit) {
  visit("ncclGetVersion", nccl.version);
  visit("ncclGetErrorString", nccl.errorString);
  visit("ncclGetUniqueId", nccl.uniqueId);
  visit("ncclCommInitRank", nccl.commInitRank);
  visit("ncclCommDestroy", nccl.commDestroy);
  visit("ncclGroupStart", nccl.groupStart);
  visit("ncclGroupEnd", nccl.groupEnd);
  visit("ncclAllReduce", nccl.allReduce);
  visit("ncclReduceScatter", nccl.reduceScatter);
  visit("ncclAllGather", nccl.allGather);
  visit("ncclBroadcast", nccl.broadcast);
}

/// 2.10 has bf16, averages, and supports graph capture.
inline constexpr int kLeastNcclVersion = 21000;

/// Loads the library at `path`; Unavailable, with the reason, if it is missing,
/// not NCCL or too old.
Result<Nccl> loadNccl(const std::string &path);
/// Returns this machine's library, loaded once.
Result<const Nccl *> installedNccl();

/// "unhandled system error".
std::string describeNcclError(const Nccl &nccl, NcclResult error);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_NCCL_H
