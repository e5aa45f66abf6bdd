//===- CollectiveTransfer.cpp - execution of one collective ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveTransfer.h"

#include "HostReduction.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <cstring>
#include <vector>

using namespace mpc;
using namespace mpc::detail;

char *Staging::reserve(size_t bytes) {
  if (bytes > size || !memory) {
    memory.reset();
    memory = allocateAligned(bytes);
    size = memory ? bytes : 0;
  }
  return static_cast<char *>(memory.get());
}

namespace {

/// State of one collective.
class CollectiveTransfer {
public:
  CollectiveTransfer(const Launch &launch, std::span<char *const> buffers,
                     Communicator &communicator, CollectiveBuffers &memory)
      : launch(launch), how(*launch.collective), communicator(communicator),
        memory(memory), inputs(buffers.first(buffers.size() / 2)),
        outputs(buffers.last(buffers.size() / 2)),
        elementBytes(size_t(mpc::elementBytes(how.element))),
        ranks(size_t(how.ranks)) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      bytes.push_back(size_t(launch.buffers[i].bytes));
      total += bytes.back();
    }
  }

  Status allReduce();
  Status reduceScatter();
  Status allGather();
  Status broadcast();

  bool isEmpty() const { return total == 0; }

private:
  /// Allocates send and receive memory.
  Status reserve(size_t sentBytes, size_t receivedBytes);
  /// Concatenates the inputs in the send memory.
  void pack();
  /// Returns true if the only input divides into the ranks' shards of
  /// `pieceBytes` without padding.
  bool liesInPieces(size_t pieceBytes) const {
    return inputs.size() == 1 && pieceBytes * ranks == total;
  }
  /// Leaves in `sent` the reduction of all ranks' shards of this rank. `fill`
  /// packs the shards for all ranks there, unless the input has that layout.
  template <typename Fill> Status reducePiece(size_t pieceBytes, Fill fill);
  /// Splits the concatenated outputs.
  void unpack(const char *from);

  const Launch &launch;
  const Collective &how;
  Communicator &communicator;
  CollectiveBuffers &memory;
  std::span<char *const> inputs, outputs;
  const size_t elementBytes, ranks;
  /// Size of each input, and of all, in bytes.
  std::vector<size_t> bytes;
  size_t total = 0;
  char *sent = nullptr, *received = nullptr;
};

} // namespace

/// memcpy() that allows empty ranges.
static void copy(char *to, const char *from, size_t bytes) {
  if (bytes)
    std::memcpy(to, from, bytes);
}

Status CollectiveTransfer::reserve(size_t sentBytes, size_t receivedBytes) {
  sent = memory.sent.reserve(sentBytes);
  received = memory.received.reserve(receivedBytes);
  if (sent && received)
    return {};
  return Status(StatusCode::ResourceExhausted, launch.kernel,
                "no memory for a message of " +
                    std::to_string(sentBytes + receivedBytes) + " bytes");
}

void CollectiveTransfer::pack() {
  char *to = sent;
  for (size_t i = 0; i < inputs.size(); to += bytes[i], ++i)
    copy(to, inputs[i], bytes[i]);
}

void CollectiveTransfer::unpack(const char *from) {
  for (size_t i = 0; i < outputs.size(); from += bytes[i], ++i)
    copy(outputs[i], from, bytes[i]);
}

template <typename Fill>
Status CollectiveTransfer::reducePiece(size_t pieceBytes, Fill fill) {
  const bool isDirect = liesInPieces(pieceBytes);
  if (Status status = reserve(isDirect ? pieceBytes : pieceBytes * ranks,
                              pieceBytes * ranks);
      !status.ok())
    return status;
  if (!isDirect)
    fill();
  if (Status status = communicator.allToAll(isDirect ? inputs[0] : sent,
                                            received, pieceBytes);
      !status.ok())
    return status;
  reduceRows(how, received, pieceBytes / elementBytes, sent);
  return {};
}

Status CollectiveTransfer::allReduce() {
  const size_t count = total / elementBytes;
  if (total * ranks <= kSmallMessageBytes) {
    if (Status status = reserve(total, total * ranks); !status.ok())
      return status;
    pack();
    if (Status status = communicator.allGather(sent, received, total);
        !status.ok())
      return status;
    reduceRows(how, received, count, sent);
    unpack(sent);
    return {};
  }
  // Shards have equal length, zero-padded.
  const size_t pieceBytes = (count + ranks - 1) / ranks * elementBytes;
  if (Status status = reducePiece(pieceBytes,
                                  [&] {
                                    pack();
                                    std::memset(sent + total, 0,
                                                pieceBytes * ranks - total);
                                  });
      !status.ok())
    return status;
  const bool isDirect = liesInPieces(pieceBytes);
  char *target = isDirect ? outputs[0] : received;
  if (Status status = communicator.allGather(sent, target, pieceBytes);
      !status.ok())
    return status;
  if (!isDirect)
    unpack(received);
  return {};
}

Status CollectiveTransfer::reduceScatter() {
  std::vector<size_t> pieces; // size of each tensor's shard, in bytes
  size_t pieceBytes = 0;
  for (size_t size : bytes) {
    size_t count = size / elementBytes;
    pieces.push_back((count + ranks - 1) / ranks * elementBytes);
    pieceBytes += pieces.back();
  }
  // Layout: for each rank its shard of every tensor.
  auto fill = [&] {
    char *to = sent;
    for (size_t rank = 0; rank < ranks; ++rank)
      for (size_t i = 0; i < inputs.size(); to += pieces[i], ++i) {
        size_t begin = std::min(rank * pieces[i], bytes[i]);
        size_t length = std::min(pieces[i], bytes[i] - begin);
        copy(to, inputs[i] + begin, length);
        std::memset(to + length, 0, pieces[i] - length);
      }
  };
  if (Status status = reducePiece(pieceBytes, fill); !status.ok())
    return status;
  const char *from = sent;
  for (size_t i = 0; i < outputs.size(); from += pieces[i], ++i)
    copy(outputs[i], from, pieces[i]);
  return {};
}

Status CollectiveTransfer::allGather() {
  // In-place operation, which transports do not support: a rank's own part is
  // already in the output.
  const bool isDirect =
      inputs.size() == 1 && (inputs[0] + total <= outputs[0] ||
                             outputs[0] + total * ranks <= inputs[0]);
  if (isDirect)
    return communicator.allGather(inputs[0], outputs[0], total);
  if (Status status = reserve(total, total * ranks); !status.ok())
    return status;
  pack();
  if (Status status = communicator.allGather(sent, received, total);
      !status.ok())
    return status;
  const char *from = received;
  for (size_t rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < outputs.size(); from += bytes[i], ++i)
      copy(outputs[i] + rank * bytes[i], from, bytes[i]);
  return {};
}

Status CollectiveTransfer::broadcast() {
  const auto root = int(how.root);
  const bool isRoot = communicator.rank() == root;
  if (inputs.size() == 1) {
    if (isRoot)
      std::memmove(outputs[0], inputs[0], total);
    return communicator.broadcast(outputs[0], total, root);
  }
  if (Status status = reserve(total, 0); !status.ok())
    return status;
  if (isRoot)
    pack();
  if (Status status = communicator.broadcast(sent, total, root); !status.ok())
    return status;
  unpack(sent);
  return {};
}

Status detail::exchange(const Launch &launch, std::span<char *const> buffers,
                        Communicator &communicator, CollectiveBuffers &memory) {
  CollectiveTransfer message(launch, buffers, communicator, memory);
  if (message.isEmpty())
    return {};
  switch (launch.collective->kind) {
  case Collective::Kind::AllReduce:
    return message.allReduce();
  case Collective::Kind::ReduceScatter:
    return message.reduceScatter();
  case Collective::Kind::AllGather:
    return message.allGather();
  case Collective::Kind::Broadcast:
    break;
  }
  return message.broadcast();
}

void detail::copySingleRank(const Launch &launch,
                            std::span<char *const> buffers) {
  for (size_t i = 0, count = buffers.size() / 2; i < count; ++i)
    if (size_t bytes = size_t(launch.buffers[i].bytes))
      std::memmove(buffers[count + i], buffers[i], bytes);
}
