//===- NetworkTests.cpp - time of messages between ranks ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Network.h"

#include "gtest/gtest.h"

using namespace mpc;

namespace {

/// Latency of a message on named links, in seconds.
constexpr double kStart = 8.4e-6;

Network network(llvm::StringRef text, int capability = 0) {
  llvm::Expected<Network> parsed = Network::parse(text, capability);
  if (!parsed) {
    ADD_FAILURE() << llvm::toString(parsed.takeError());
    return Network::measured("", {});
  }
  return *parsed;
}

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<Network> parsed = Network::parse(text);
  return parsed ? "" : llvm::toString(parsed.takeError());
}

double allReduce(const Network &network, int64_t bytes, int64_t ranks) {
  return network.cost(MessageKind::AllReduce, bytes, ranks).seconds;
}

TEST(NetworkTest, OneRankSendsNothing) {
  MessageCost cost = network("nvlink").cost(MessageKind::AllReduce, 1000, 1);
  EXPECT_EQ(cost.seconds, 0);
  EXPECT_EQ(cost.sentBytes, 0);
}

TEST(NetworkTest, RingsAreForLargeMessages) {
  Network links = network("link,latency=1e-5,bandwidth=1e9");
  MessageCost cost = links.cost(MessageKind::AllReduce, 8000000, 8);
  EXPECT_EQ(cost.algorithm, "ring");
  EXPECT_DOUBLE_EQ(cost.seconds, kStart + 14 * 1e-5 + 14 * 1e-3);
  EXPECT_DOUBLE_EQ(cost.sentBytes, 14e6);
  cost = links.cost(MessageKind::ReduceScatter, 8000000, 8);
  EXPECT_DOUBLE_EQ(cost.sentBytes, 7e6);
}

TEST(NetworkTest, TreesAreForSmallMessages) {
  Network links = network("link,latency=1e-5,bandwidth=1e9");
  MessageCost cost = links.cost(MessageKind::AllReduce, 8, 8);
  EXPECT_EQ(cost.algorithm, "tree");
  EXPECT_DOUBLE_EQ(cost.seconds, kStart + 6 * 1e-5 + 16e-9);
  // Five ranks are three deep as well.
  EXPECT_DOUBLE_EQ(allReduce(links, 8, 5), allReduce(links, 8, 8));
}

TEST(NetworkTest, ShardsAreReducedInsideAGroupFirst) {
  Network links = network("link,ranks=4,latency=0,bandwidth=100e9+"
                          "link,latency=1e-5,bandwidth=1e9");
  // Three quarters there and back inside, and each rank a quarter outside.
  MessageCost cost = links.cost(MessageKind::AllReduce, 4000000, 8);
  double inside = 2 * 0.75 * 4e6 / 100e9,
         outside = 2 * (1e-5 + 0.5 * 1e6 / 1e9);
  EXPECT_NEAR(cost.seconds, kStart + inside + outside, 1e-9);
  // A link that four ranks share carries what one ring would.
  Network shared = network("link,ranks=4,latency=0,bandwidth=100e9+"
                           "link,latency=1e-5,bandwidth=1e9,share=4");
  EXPECT_GT(allReduce(shared, 4000000, 8), 3 * cost.seconds);
  // The bytes sent do not depend on the algorithm.
  EXPECT_DOUBLE_EQ(cost.sentBytes, 2 * 4e6 * 7 / 8);
}

TEST(NetworkTest, MoreRanksBytesOrSlowerLinksNeverTakeLess) {
  for (const char *text : {"nvlink+ib400", "nvlink,ranks=4+ib100,share=4",
                           "pcie4,ranks=2+nvlink+eth10", "ib200"}) {
    Network links = network(text);
    for (MessageKind kind : {MessageKind::AllReduce, MessageKind::ReduceScatter,
                             MessageKind::AllGather, MessageKind::Broadcast}) {
      for (int64_t ranks = 2; ranks <= 4096; ranks *= 2) {
        double before = 0;
        for (int64_t bytes = 1; bytes < int64_t(1) << 34; bytes *= 4) {
          double seconds = links.cost(kind, bytes, ranks).seconds;
          EXPECT_GE(seconds, before) << text << " " << ranks << " " << bytes;
          EXPECT_GE(links.cost(kind, bytes, 2 * ranks).seconds, 0.999 * seconds)
              << text << " " << ranks << " " << bytes;
          before = seconds;
        }
      }
    }
  }
}

TEST(NetworkTest, NamesOfGpus) {
  EXPECT_EQ(network("nvlink", 70).levels()[0].name, "nvlink2");
  EXPECT_EQ(network("nvlink", 86).levels()[0].name, "nvlink3");
  EXPECT_EQ(network("nvlink", 90).levels()[0].name, "nvlink4");
  EXPECT_EQ(network("nvlink", 100).levels()[0].name, "nvlink5");
  EXPECT_EQ(network("link,ranks=2,bandwidth=1e+9+ib100").levels().size(), 2u);
}

TEST(NetworkTest, LineOfAnAllReduce) {
  Network links = network("nvlink+ib400");
  NetworkModel line = links.model(64);
  for (int64_t bytes : {int64_t(1) << 23, int64_t(1) << 26})
    EXPECT_NEAR(line.secondsOf(bytes), allReduce(links, bytes, 64),
                0.25 * allReduce(links, bytes, 64));
}

TEST(NetworkTest, WhatIsNoNetwork) {
  EXPECT_NE(errorOf("nvlnk").find("'nvlnk' is not one of nvlink, "),
            std::string::npos);
  EXPECT_NE(errorOf("").find("'' is not one of"), std::string::npos);
  EXPECT_NE(errorOf("nvlink+").find("'' is not one of"), std::string::npos);
  EXPECT_EQ(
      errorOf("nvlink,lanes=2"),
      "'lanes' is not a field of nvlink4; it has bandwidth, latency, ranks, "
      "share");
  EXPECT_EQ(errorOf("nvlink,ranks=0"),
            "'0' is not a number of ranks from 1 to 1048576");
  EXPECT_EQ(errorOf("ib400,latency=-1"),
            "'-1' is not a latency in seconds, 0 to 3600");
  EXPECT_EQ(errorOf("ib400,latency=1e308"),
            "'1e308' is not a latency in seconds, 0 to 3600");
  EXPECT_EQ(errorOf("ib400,bandwidth=1e19"),
            "'1e19' is not a bandwidth in bytes per second, 1 to 1e18");
  EXPECT_EQ(errorOf("ib400,bandwidth=nan"),
            "'nan' is not a bandwidth in bytes per second, 1 to 1e18");
  EXPECT_EQ(errorOf("link,latency=1e-6"),
            "'link' needs bandwidth=BYTES per second");
  EXPECT_EQ(
      errorOf("ib400+nvlink"),
      "'ib400' connects any number of ranks, so no link can follow it; list "
      "the innermost links first, or give it ranks=N");
}

TEST(NetworkTest, WhatANetworkDoesNotJoin) {
  EXPECT_EQ(network("nvlink").whyNot(8), "");
  EXPECT_EQ(network("nvlink").whyNot(9),
            "connects 8 ranks, not 9; add outer links, such as nvlink+ib400");
  EXPECT_EQ(network("nvlink+ib400").whyNot(int64_t(1) << 40), "");
  EXPECT_EQ(network("nvlink,ranks=1048576+nvlink,ranks=1048576+"
                    "nvlink,ranks=1048576+nvlink,ranks=1048576")
                .whyNot(65536),
            "");
}

TEST(NetworkTest, MeasuredNumbersStand) {
  Network links = Network::measured("host", {{2, {1e-4, 1e9}}});
  EXPECT_EQ(links.whyNot(2), "");
  EXPECT_EQ(links.whyNot(4), "was not measured for 4 ranks");
  EXPECT_DOUBLE_EQ(allReduce(links, 1000000, 2), 1e-4 + 1e-3);
  EXPECT_DOUBLE_EQ(links.model(2).latencySeconds, 1e-4);
}

} // namespace
