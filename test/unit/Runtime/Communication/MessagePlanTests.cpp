//===- MessagePlanTests.cpp - tests of waits for collectives --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communication/CollectiveDependences.h"

#include <gtest/gtest.h>

#include <random>

using namespace mpc;
using detail::CollectiveDependences;

namespace {

using Kind = BufferRef::Kind;

BufferRef ref(Kind kind, int64_t index, int64_t offset, int64_t bytes,
              bool written) {
  return {kind, index, offset, bytes, written};
}
BufferRef arena(int64_t offset, int64_t bytes, bool written) {
  return ref(Kind::Arena, 0, offset, bytes, written);
}

Launch launch(std::vector<BufferRef> buffers, bool isMessage = false) {
  Launch made;
  made.buffers = std::move(buffers);
  if (isMessage) {
    made.collective.emplace();
    made.collective->ranks = 2;
  }
  return made;
}

std::vector<size_t> neededBy(std::vector<Launch> launches) {
  Program program;
  program.launches = std::move(launches);
  return CollectiveDependences(program).needed;
}

using Numbers = std::vector<size_t>;

} // namespace

TEST(CollectiveDependences, ReadersOfOutputsAndWritersOfInputsWait) {
  Launch message = launch({arena(0, 64, false), arena(64, 64, true)}, true);
  EXPECT_EQ(neededBy({message, launch({arena(0, 64, false)}),
                      launch({arena(128, 64, true)}),
                      launch({arena(127, 4, false)})}),
            (Numbers{0, 0, 0, 1, 1}));
  EXPECT_EQ(neededBy({message, launch({arena(60, 4, true)})}),
            (Numbers{0, 1, 1}));
  EXPECT_EQ(neededBy({message, launch({arena(64, 4, true)})}),
            (Numbers{0, 1, 1}));
  EXPECT_EQ(neededBy({message, launch({arena(128, 4, true)})}),
            (Numbers{0, 0, 1}));
}

TEST(CollectiveDependences, MessagesWaitForNone) {
  Launch first = launch({arena(0, 64, false), arena(64, 64, true)}, true);
  Launch second = launch({arena(64, 64, false), arena(0, 64, true)}, true);
  EXPECT_EQ(neededBy({first, second, launch({arena(64, 4, false)})}),
            (Numbers{0, 0, 1, 2}));
  EXPECT_EQ(neededBy({first, second, launch({arena(64, 4, true)})}),
            (Numbers{0, 0, 2, 2}));
}

TEST(CollectiveDependences, AResultThatReplacesAnArgumentIsTheArgument) {
  TensorType type{ElementType::F32, {16}};
  Program program;
  program.arguments = {{"a", type}, {"w", type}};
  program.results = {{"y", type}, {"w", type}};
  program.results[1].alias = 1;
  program.launches = {
      launch({ref(Kind::Argument, 1, 0, 64, false), arena(0, 64, true)}, true),
      launch({ref(Kind::Result, 0, 0, 64, true)}),
      launch({ref(Kind::Argument, 0, 0, 64, false)}),
      launch({ref(Kind::Result, 1, 0, 64, true)}),
  };
  EXPECT_EQ(CollectiveDependences(program).needed, (Numbers{0, 0, 0, 1, 1}));
}

TEST(CollectiveDependences, IsWhatComparingAllPairsGives) {
  std::mt19937 random(7);
  auto below = [&](int64_t most) { return int64_t(random() % uint64_t(most)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Launch> launches;
    for (int i = 0; i < 40; ++i) {
      std::vector<BufferRef> buffers;
      buffers.reserve(4);
      bool isMessage = below(3) == 0;
      for (int64_t j = 0; j < 4; ++j)
        buffers.push_back(
            arena(below(400), below(40), isMessage ? j >= 2 : below(2) == 0));
      launches.push_back(launch(std::move(buffers), isMessage));
    }
    Numbers expected, messages;
    size_t over = 0;
    for (size_t i = 0; i < launches.size(); ++i) {
      size_t number = 0;
      if (launches[i].collective) {
        messages.push_back(i);
      } else {
        for (size_t m = 0; m < messages.size(); ++m)
          for (const BufferRef &a : launches[messages[m]].buffers)
            for (const BufferRef &b : launches[i].buffers)
              if ((a.written || b.written) && a.offset < b.offset + b.bytes &&
                  b.offset < a.offset + a.bytes && a.bytes && b.bytes)
                number = std::max(number, m + 1);
      }
      expected.push_back(number);
    }
    expected.push_back(messages.size());
    // A wait for a message that is already over is no wait.
    Numbers found = neededBy(launches);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::max(found[i], over), std::max(expected[i], over));
      over = std::max(over, expected[i]);
    }
  }
}
