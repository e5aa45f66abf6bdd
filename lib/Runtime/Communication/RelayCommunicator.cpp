//===- RelayCommunicator.cpp - communication through another process ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call is a request and a response on a socket, in native byte order. A
// request is four words (call, root, bytes per rank, payload bytes) and the
// send data; a response is two (status, payload bytes) and the received data or
// the error message.
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Communicator.h"

#include "TransportHeader.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;

namespace {

enum class Call : uint64_t { AllGather = 1, AllToAll, Broadcast, Abort };

class RelayCommunicator : public Communicator {
public:
  RelayCommunicator(int descriptor, int rank, int size)
      : descriptor(descriptor), self(rank), ranks(size) {}
  ~RelayCommunicator() override { ::close(descriptor); }

  int rank() const override { return self; }
  int size() const override { return ranks; }

  Status allGather(const void *send, void *receive, size_t bytes) override {
    return ask(Call::AllGather, 0, bytes, send, bytes, receive,
               bytes * size_t(ranks));
  }
  Status allToAll(const void *send, void *receive, size_t bytes) override {
    return ask(Call::AllToAll, 0, bytes, send, bytes * size_t(ranks), receive,
               bytes * size_t(ranks));
  }
  Status broadcast(void *data, size_t bytes, int root) override {
    return ask(Call::Broadcast, root, bytes, data, self == root ? bytes : 0,
               data, self == root ? 0 : bytes);
  }
  void abort(const std::string &why) override {
    printLine(rankName(self, ranks) + ": " + why);
    const std::array<uint64_t, 4> head = {uint64_t(Call::Abort), 0, 0, 0};
    (void)write(head.data(), sizeof(head));
  }

private:
  Status ask(Call call, int root, size_t bytes, const void *sent,
             size_t sentBytes, void *received, size_t receivedBytes);
  bool write(const void *data, size_t bytes) const;
  bool read(void *data, size_t bytes) const;
  Status failure(const std::string &text) const {
    std::string where = rankName(self, ranks);
    if (!purpose.empty())
      where += ": " + purpose;
    return Status(StatusCode::Unavailable, where, text);
  }

  const int descriptor, self, ranks;
};

} // namespace

bool RelayCommunicator::write(const void *data, size_t bytes) const {
  const auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    // MSG_NOSIGNAL: a closed peer is a failure, not a signal.
    const ssize_t written = ::send(descriptor, from, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    from += written;
    bytes -= size_t(written);
  }
  return true;
}

bool RelayCommunicator::read(void *data, size_t bytes) const {
  auto *to = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(descriptor, to, bytes, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    to += got;
    bytes -= size_t(got);
  }
  return true;
}

Status RelayCommunicator::ask(Call call, int root, size_t bytes,
                              const void *sent, size_t sentBytes,
                              void *received, size_t receivedBytes) {
  constexpr const char *kGone =
      "the process that communicates for it has exited";
  constexpr size_t kMostText = 1 << 16;
  const std::array<uint64_t, 4> head = {uint64_t(call), uint64_t(root), bytes,
                                        sentBytes};
  if (!write(head.data(), sizeof(head)) || !write(sent, sentBytes))
    return failure(kGone);
  std::array<uint64_t, 2> answer = {};
  if (!read(answer.data(), sizeof(answer)))
    return failure(kGone);
  if (answer[0] == 0) {
    if (answer[1] != receivedBytes)
      return failure("received " + std::to_string(answer[1]) +
                     " bytes instead of " + std::to_string(receivedBytes));
    return read(received, receivedBytes) ? Status() : failure(kGone);
  }
  std::string text(size_t(std::min<uint64_t>(answer[1], kMostText)), '\0');
  return failure(read(text.data(), text.size()) ? text : kGone);
}

Result<std::shared_ptr<Communicator>> mpc::joinRelay(int descriptor, int rank,
                                                     int size) {
  auto bad = [](const std::string &text) {
    return Status(StatusCode::InvalidArgument, "relay", text);
  };
  constexpr int kMostRanks = 65536;
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size)
    return bad("has no rank " + std::to_string(rank) + " of " +
               std::to_string(size));
  int type = 0;
  socklen_t length = sizeof(type);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_STREAM)
    return bad("descriptor " + std::to_string(descriptor) +
               " is not a stream socket");
  return std::shared_ptr<Communicator>(
      std::make_shared<RelayCommunicator>(descriptor, rank, size));
}
