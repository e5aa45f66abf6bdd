//===- ThreadCommunicatorTests.cpp - tests of ranks that are threads ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MessageProgram.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

using namespace mpc;
using namespace mpc::testing;

TEST(ThreadCommunicator, MovesBytesAsItsNamesSay) {
  for (int ranks : {1, 2, 3, 4})
    onThreads(ranks, [&](int rank, Communicator &group) {
      EXPECT_EQ(group.rank(), rank);
      EXPECT_EQ(group.size(), ranks);
      for (int round = 0; round < 200; ++round) {
        std::vector<int> send(static_cast<size_t>(ranks)),
            receive(static_cast<size_t>(ranks));
        int own = rank * 1000 + round;
        ASSERT_TRUE(group.allGather(&own, receive.data(), sizeof(int)).ok());
        for (int from = 0; from < ranks; ++from) {
          EXPECT_EQ(receive[size_t(from)], from * 1000 + round);
          send[size_t(from)] = rank * 10 + from;
        }
        ASSERT_TRUE(
            group.allToAll(send.data(), receive.data(), sizeof(int)).ok());
        for (int from = 0; from < ranks; ++from)
          EXPECT_EQ(receive[size_t(from)], from * 10 + rank);
        int value = rank + round;
        ASSERT_TRUE(group.broadcast(&value, sizeof(value), round % ranks).ok());
        EXPECT_EQ(value, round % ranks + round);
        ASSERT_TRUE(group.allGather(nullptr, nullptr, 0).ok());
      }
    });
}

TEST(ThreadCommunicator, ARankThatAbortsWakesTheOthers) {
  onThreads(3, [&](int rank, Communicator &group) {
    int value = rank;
    std::array<int, 3> all;
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      group.abort("cannot read its data");
      return;
    }
    Status status = group.allGather(&value, all.data(), sizeof(value));
    EXPECT_EQ(status.toString(),
              "rank " + std::to_string(rank) +
                  " of 3: rank 2 of 3: cannot read its data");
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    // The group stays of no use.
    EXPECT_FALSE(group.broadcast(&value, sizeof(value), 0).ok());
  });
}

TEST(ThreadCommunicator, ARankThatLeavesWakesTheOthers) {
  onThreads(2, [&](int rank, Communicator &group) {
    int value = rank;
    ASSERT_TRUE(group.broadcast(&value, sizeof(value), 1).ok());
    if (rank == 1)
      return;
    group.describe("message 'm' of main");
    EXPECT_EQ(group.broadcast(&value, sizeof(value), 1).toString(),
              "rank 0 of 2: message 'm' of main: rank 1 of 2 has left");
  });
}

TEST(ThreadCommunicator, PatienceEnds) {
  onThreads(3,
            [&](int rank, Communicator &group) {
              if (rank == 2) // Longer than the others are patient.
                std::this_thread::sleep_for(std::chrono::milliseconds(500));
              int value = rank;
              Status status = group.broadcast(&value, sizeof(value), 0);
              ASSERT_FALSE(status.ok());
              EXPECT_NE(
                  status.text().find("waited 0.1 s for rank 2 in a broadcast "
                                     "of 4 bytes"),
                  std::string::npos)
                  << status.text();
            },
            {.patience = 0.1});
}

TEST(ThreadCommunicator, RanksThatAskForDifferentThingsFail) {
  onThreads(2, [&](int rank, Communicator &group) {
    std::array<char, 16> send = {}, receive = {};
    Status status =
        group.allGather(send.data(), receive.data(), rank == 0 ? 4 : 8);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.text().find("of 4 bytes"), std::string::npos);
    EXPECT_NE(status.text().find("of 8 bytes"), std::string::npos);
  });
}
