//===- GridBarrierTest.cpp - grid barriers on the host --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All blocks of such a launch are co-resident, in two groups with a counter
// each. A hang or stale value on a GPU is reported as a diagnostic.
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"

using namespace mpc;

// In every step a block adds the value of its neighbour in the group from the
// previous step; double buffered, so that a block may be a step ahead. $MEET is
// the barrier between writing and reading.
static const char *kRing = R"(
MPC_KERNEL(64) void ring(const int *x, int *left, int *y, int *counters, int steps) {
  MPC_SHARED(int, own, [64]);
  int t = mpc::threadX(), group = mpc::blockX() / 3, member = mpc::blockX() % 3;
  own[t] = x[64 * mpc::blockX() + t];
  for (int step = 0; step < steps; ++step) {
    int *copy = left + 64 * 6 * (step % 2) + 64 * 3 * group;
    copy[64 * member + t] = own[t];
    $MEET
    int neighbour = copy[64 * ((member + 1) % 3) + 63 - t];
    mpc::barrier();
    own[t] += neighbour;
  }
  y[64 * mpc::blockX() + t] = own[t];
}
)";

static std::string ringThatMeets(const std::string &by) {
  std::string text = kRing;
  return text.replace(text.find("$MEET"), 5, by);
}

static Status runRing(const std::string &meet, const HostLaunch &launch,
                      std::vector<int> &y, int steps = 3) {
  HostModule module = compileKernels(ringThatMeets(meet), {"ring"});
  std::vector<int> x(64 * 6), left(2 * 64 * 6), counters(2);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<int>(i * i % 101);
  y.assign(x.size(), 0);
  Status status = module.launch(
      "ring", launch,
      {HostArgument::input("x", x), HostArgument::output("left", left),
       HostArgument::output("y", y), HostArgument::inOut("counters", counters),
       HostArgument::scalar(steps)});
  if (!status.ok())
    return status;
  std::vector<int> own = x;
  for (int step = 0; step < steps; ++step) {
    std::vector<int> before = own;
    for (int block = 0; block < 6; ++block)
      for (int t = 0; t < 64; ++t)
        own[64 * block + t] +=
            before[64 * (block / 3 * 3 + (block + 1) % 3) + 63 - t];
  }
  EXPECT_EQ(y, own);
  return status;
}

static HostLaunch together(ThreadOrder order = ThreadOrder::Ascending) {
  HostLaunch launch = grid(6, 64, order);
  launch.cooperative = true;
  return launch;
}

static const char *kMeet =
    "mpc::gridBarrier(counters + group, 3, member == 0);";

TEST(GridBarrier, BlocksMeetInGroups) {
  for (ThreadOrder order : kOrders) {
    std::vector<int> y;
    Status status = runRing(kMeet, together(order), y);
    EXPECT_TRUE(status.ok()) << status.toString();
  }
}

TEST(GridBarrier, ABarrierOfTheBlockIsNotEnough) {
  std::vector<int> y;
  Status status = runRing("mpc::barrier();", together(), y);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("which is uninitialized"), std::string::npos)
      << status.toString();
}

// With one copy a block overwrites what others still read.
TEST(GridBarrier, ReadersOfTheLastStepAreNotOrdered) {
  std::string text = ringThatMeets(kMeet), copies = "64 * 6 * (step % 2)";
  text.replace(text.find(copies), copies.size(), "0");
  HostModule module = compileKernels(text, {"ring"});
  std::vector<int> x(64 * 6), left(64 * 6), y(64 * 6), counters(2);
  int steps = 3;
  Status status = module.launch(
      "ring", together(),
      {HostArgument::input("x", x), HostArgument::output("left", left),
       HostArgument::output("y", y), HostArgument::inOut("counters", counters),
       HostArgument::scalar(steps)});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(
      status.text().find("which another block reads without synchronization"),
      std::string::npos)
      << status.toString();
}

// Groups do not order each other.
TEST(GridBarrier, TheOtherGroupIsNotOrdered) {
  std::vector<int> y;
  std::string text = kMeet;
  Status status = runRing(
      text + " if (t == 0 && group == 1) y[0] = left[64 * 6 * (step % 2)];",
      together(), y);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("another block"), std::string::npos)
      << status.toString();
}

TEST(GridBarrier, NeedsALaunchOfAllBlocksAtOnce) {
  std::vector<int> y;
  Status status = runRing(kMeet, grid(6, 64), y);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("waits for other blocks in a launch whose "
                               "blocks are not all co-resident"),
            std::string::npos)
      << status.toString();
}

TEST(GridBarrier, ABlockThatNeverComesIsSaid) {
  std::vector<int> y;
  Status status =
      runRing(std::string("if (member == 2) return; ") + kMeet, together(), y);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("waits for 3 blocks, of which 2 come"),
            std::string::npos)
      << status.toString();
}

TEST(GridBarrier, AllThreadsOfABlockHaveToCome) {
  std::vector<int> y;
  Status status = runRing(
      "if (t < 50) mpc::gridBarrier(counters + group, 3, member == 0); else "
      "mpc::barrier();",
      together(), y);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.text().find("divergent barrier"), std::string::npos)
      << status.toString();
}
