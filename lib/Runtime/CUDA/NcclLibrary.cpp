//===- NcclLibrary.cpp - collectives by NCCL ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions have NCCL's order, which depends on the topology and the number of
// ranks, and partial sums of 16-bit types are rounded: unlike the order and the
// accumulator type of a collective (Collective.h), which only the host's
// implementation follows. All ranks get the same bits.
//
//===----------------------------------------------------------------------===//

#include "NcclLibrary.h"

#include <optional>

using namespace mpc;
using namespace mpc::detail;

/// Returns NCCL's type for a reduction.
static std::optional<NcclType> typeOf(ElementType element) {
  switch (element) {
  case ElementType::F16:
    return kNcclFloat16;
  case ElementType::BF16:
    return kNcclBFloat16;
  case ElementType::F32:
    return kNcclFloat32;
  case ElementType::F64:
    return kNcclFloat64;
  case ElementType::I32:
    return kNcclInt32;
  case ElementType::I64:
    return kNcclInt64;
  default:
    return std::nullopt;
  }
}

static NcclReduction reductionOf(Collective::Reduction reduction) {
  switch (reduction) {
  case Collective::Reduction::Sum:
    return kNcclSum;
  case Collective::Reduction::Mean:
    return kNcclMean;
  case Collective::Reduction::Min:
    return kNcclMin;
  case Collective::Reduction::Max:
    break;
  }
  return kNcclMax;
}

namespace {

class NcclLibrary : public CollectiveBackend {
public:
  NcclLibrary(const Nccl &nccl, std::shared_ptr<CudaContext> context,
              NcclComm comm, int rank, int size)
      : nccl(nccl), context(std::move(context)), comm(comm),
        name("rank " + std::to_string(rank) + " of " + std::to_string(size)),
        size(size) {}
  ~NcclLibrary() override {
    CudaScope scope(*context);
    if (scope.ok())
      (void)nccl.commDestroy(comm);
  }

  int64_t ranks() const override { return size; }
  int64_t workspaceBytes(const Launch &launch) const override;
  Status enqueue(const Launch &launch, std::span<const CuAddress> buffers,
                 CuAddress workspace, CuHandle stream) override;

private:
  Status failure(const char *call, NcclResult error,
                 const Launch &launch) const {
    return Status(
        StatusCode::Unavailable, name + ": message '" + launch.kernel + "'",
        std::string(call) + " failed with " + describeNcclError(nccl, error));
  }
  /// Returns the size of all ranks' shards of tensor `index`, in bytes, if that
  /// exceeds the tensor.
  static int64_t paddedBytes(const Launch &launch, size_t index, int64_t ranks);
  Status pad(const Launch &launch, std::span<const CuAddress> buffers,
             CuAddress workspace, CuHandle stream) const;
  NcclResult send(const Launch &launch, size_t index, const void *input,
                  void *output, CuHandle stream, const char *&call) const;

  const Nccl nccl;
  const std::shared_ptr<CudaContext> context;
  const NcclComm comm;
  const std::string name;
  const int64_t size;
};

} // namespace

static constexpr int64_t aligned(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// 0 if the tensor divides into equal shards without padding.
int64_t NcclLibrary::paddedBytes(const Launch &launch, size_t index,
                                 int64_t ranks) {
  if (launch.collective->kind != Collective::Kind::ReduceScatter)
    return 0;
  const int64_t pieces =
      launch.buffers[launch.buffers.size() / 2 + index].bytes * ranks;
  return pieces == launch.buffers[index].bytes ? 0 : pieces;
}

int64_t NcclLibrary::workspaceBytes(const Launch &launch) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < launch.buffers.size() / 2; ++i)
    bytes += aligned(paddedBytes(launch, i, size));
  return bytes;
}

/// Copies tensors that do not divide into equal shards to a zero-padded
/// workspace.
Status NcclLibrary::pad(const Launch &launch,
                        std::span<const CuAddress> buffers, CuAddress workspace,
                        CuHandle stream) const {
  const CudaDriver &cu = context->driver();
  for (size_t i = 0; i < buffers.size() / 2; ++i) {
    const int64_t padded = paddedBytes(launch, i, size),
                  bytes = launch.buffers[i].bytes;
    if (padded == 0)
      continue;
    if (bytes)
      if (Status status = context->check(
              cu.memcpyDtoDAsync(workspace, buffers[i], size_t(bytes), stream),
              "cuMemcpyDtoDAsync", launch.kernel);
          !status.ok())
        return status;
    if (Status status =
            context->check(cu.memsetD8Async(workspace + CuAddress(bytes), 0,
                                            size_t(padded - bytes), stream),
                           "cuMemsetD8Async", launch.kernel);
        !status.ok())
      return status;
    workspace += CuAddress(aligned(padded));
  }
  return {};
}

NcclResult NcclLibrary::send(const Launch &launch, size_t index,
                             const void *input, void *output, CuHandle stream,
                             const char *&call) const {
  const Collective &how = *launch.collective;
  const auto inputBytes = size_t(launch.buffers[index].bytes),
             outputBytes = size_t(
                 launch.buffers[launch.buffers.size() / 2 + index].bytes);
  const auto elementBytes = size_t(mpc::elementBytes(how.element));
  const int type = typeOf(how.element).value_or(kNcclInt8),
            reduction = reductionOf(how.reduction);
  switch (how.kind) {
  case Collective::Kind::AllReduce:
    call = "ncclAllReduce";
    return nccl.allReduce(input, output, inputBytes / elementBytes, type,
                          reduction, comm, stream);
  case Collective::Kind::ReduceScatter:
    call = "ncclReduceScatter";
    return nccl.reduceScatter(input, output, outputBytes / elementBytes, type,
                              reduction, comm, stream);
  case Collective::Kind::AllGather:
    call = "ncclAllGather";
    return nccl.allGather(input, output, inputBytes, kNcclInt8, comm, stream);
  case Collective::Kind::Broadcast:
    break;
  }
  call = "ncclBroadcast";
  return nccl.broadcast(input, output, inputBytes, kNcclInt8, int(how.root),
                        comm, stream);
}

Status NcclLibrary::enqueue(const Launch &launch,
                            std::span<const CuAddress> buffers,
                            CuAddress workspace, CuHandle stream) {
  const Collective &how = *launch.collective;
  if (how.reduces() && !typeOf(how.element))
    return Status(StatusCode::Unavailable,
                  name + ": message '" + launch.kernel + "'",
                  "NCCL has no " + how.toString());
  if (Status status = pad(launch, buffers, workspace, stream); !status.ok())
    return status;
  // Tensors of one collective are grouped.
  const size_t count = buffers.size() / 2;
  if (NcclResult error = nccl.groupStart())
    return failure("ncclGroupStart", error, launch);
  NcclResult error = 0;
  const char *call = "";
  for (size_t i = 0; i < count && !error; ++i) {
    CuAddress input = buffers[i];
    if (const int64_t padded = paddedBytes(launch, i, size)) {
      input = workspace;
      workspace += CuAddress(aligned(padded));
    }
    if (launch.buffers[count + i].bytes)
      error = send(launch, i, toPointer(input), toPointer(buffers[count + i]),
                   stream, call);
  }
  // A started group must be ended even after a failure.
  const NcclResult ended = nccl.groupEnd();
  if (error)
    return failure(call, error, launch);
  return ended ? failure("ncclGroupEnd", ended, launch) : Status();
}

Result<std::shared_ptr<CollectiveBackend>>
detail::joinNccl(const Result<const Nccl *> &nccl,
                 std::shared_ptr<CudaContext> context, Communicator &group) {
  // Agree on failures first, so that no rank waits for one without NCCL.
  if (Status status = shareFailure(group, nccl.ok() ? Status() : nccl.status());
      !status.ok())
    return status;
  const Nccl &table = **nccl;
  auto failed = [&](const char *call, NcclResult error) {
    return Status(StatusCode::Unavailable, "nccl",
                  std::string(call) + " failed with " +
                      describeNcclError(table, error));
  };
  NcclId id;
  Status own;
  if (group.rank() == 0)
    if (NcclResult error = table.uniqueId(&id))
      own = failed("ncclGetUniqueId", error);
  if (Status status = shareFailure(group, own); !status.ok())
    return status;
  if (Status status = group.broadcast(&id, sizeof(id), 0); !status.ok())
    return status;
  NcclComm comm = nullptr;
  NcclResult error = table.commInitRank(&comm, group.size(), id, group.rank());
  std::shared_ptr<CollectiveBackend> library;
  if (!error)
    library = std::make_shared<NcclLibrary>(table, std::move(context), comm,
                                            group.rank(), group.size());
  own = error ? failed("ncclCommInitRank", error) : Status();
  if (Status status = shareFailure(group, own); !status.ok())
    return status;
  return library;
}
