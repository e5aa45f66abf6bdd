//===- RelayTests.cpp - collectives done by another process ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace mpc;

namespace {

/// The peer of a rank's socket, for one call: the request, and `answer` to
/// it.
class Relay {
public:
  Relay() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  ~Relay() { close(); }
  void close() {
    if (ends[0] >= 0)
      ::close(ends[0]);
    ends[0] = -1;
  }
  int theirs() const { return ends[1]; }

  /// Reads a call and answers it.
  void serve(uint64_t code, const std::string &answer) {
    ASSERT_EQ(::recv(ends[0], head.data(), sizeof(head), MSG_WAITALL),
              ssize_t(sizeof(head)));
    sent.resize(head[3]);
    if (!sent.empty())
      ASSERT_EQ(::recv(ends[0], sent.data(), sent.size(), MSG_WAITALL),
                ssize_t(sent.size()));
    const std::array<uint64_t, 2> back = {code, answer.size()};
    ASSERT_EQ(::send(ends[0], back.data(), sizeof(back), 0),
              ssize_t(sizeof(back)));
    ASSERT_EQ(::send(ends[0], answer.data(), answer.size(), 0),
              ssize_t(answer.size()));
  }

  std::array<uint64_t, 4> head = {};
  std::string sent;

private:
  int ends[2] = {-1, -1};
};

std::shared_ptr<Communicator> join(const Relay &relay, int rank, int size) {
  Result<std::shared_ptr<Communicator>> joined =
      joinRelay(relay.theirs(), rank, size);
  EXPECT_TRUE(joined.ok()) << joined.status().toString();
  return *joined;
}

} // namespace

TEST(Relay, CallsAreAskedAndAnswered) {
  Relay relay;
  std::shared_ptr<Communicator> end = join(relay, 1, 2);
  EXPECT_EQ(end->rank(), 1);
  EXPECT_EQ(end->size(), 2);
  std::thread other([&] { relay.serve(0, "abcdef"); });
  std::string received(6, '\0');
  EXPECT_TRUE(end->allGather("def", received.data(), 3).ok());
  other.join();
  EXPECT_EQ(received, "abcdef");
  EXPECT_EQ(relay.sent, "def");
  EXPECT_EQ(relay.head, (std::array<uint64_t, 4>{1, 0, 3, 3}));

  other = std::thread([&] { relay.serve(0, "wxyz"); });
  EXPECT_TRUE(end->allToAll("stuv", received.data(), 2).ok());
  other.join();
  EXPECT_EQ(received.substr(0, 4), "wxyz");
  EXPECT_EQ(relay.head, (std::array<uint64_t, 4>{2, 0, 2, 4}));

  other = std::thread([&] { relay.serve(0, "pq"); });
  EXPECT_TRUE(end->broadcast(received.data(), 2, 0).ok());
  other.join();
  EXPECT_EQ(received.substr(0, 2), "pq");
  EXPECT_EQ(relay.head, (std::array<uint64_t, 4>{3, 0, 2, 0}));

  other = std::thread([&] { relay.serve(0, ""); });
  EXPECT_TRUE(end->broadcast(received.data(), 2, 1).ok());
  other.join();
  EXPECT_EQ(relay.sent, "pq");
}

TEST(Relay, FailuresAreReported) {
  Relay relay;
  std::shared_ptr<Communicator> end = join(relay, 0, 2);
  end->describe("message 'gradients' of step");
  std::thread other([&] { relay.serve(1, "no route"); });
  char data[4] = {};
  Status status = end->broadcast(data, 4, 1);
  other.join();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.where(), "rank 0 of 2: message 'gradients' of step");
  EXPECT_EQ(status.text(), "no route");
  other = std::thread([&] { relay.serve(0, "abc"); });
  status = end->broadcast(data, 4, 1);
  other.join();
  EXPECT_EQ(status.text(), "received 3 bytes instead of 4");
  relay.close();
  EXPECT_EQ(end->broadcast(data, 4, 1).text(),
            "the process that communicates for it has exited");
}

TEST(Relay, WhatIsNoRelay) {
  EXPECT_EQ(joinRelay(0, 2, 2).status().text(), "has no rank 2 of 2");
  EXPECT_EQ(joinRelay(0, 0, 0).status().text(), "has no rank 0 of 0");
  int file = ::open("/dev/null", O_RDONLY);
  EXPECT_NE(
      joinRelay(file, 0, 2).status().text().find("is not a stream socket"),
      std::string::npos);
  ::close(file);
  EXPECT_NE(joinRelay(-1, 0, 2).status().text().find("is not a stream socket"),
            std::string::npos);
}
