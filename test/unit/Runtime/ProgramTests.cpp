//===- ProgramTests.cpp - memory usage that a program reports -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Program.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

BufferRef arena(int64_t offset, int64_t bytes, bool written) {
  return {BufferRef::Kind::Arena, 0, offset, bytes, written};
}

Launch launch(std::vector<BufferRef> buffers) {
  Launch made;
  made.buffers = std::move(buffers);
  return made;
}

} // namespace

TEST(Program, LiveBytesOfAChainAreTwoNeighbours) {
  Program program;
  program.launches = {
      launch({arena(0, 100, true)}),
      launch({arena(0, 100, false), arena(128, 300, true)}),
      launch({arena(128, 300, false), arena(0, 50, true)}),
      launch({arena(0, 50, false)}),
  };
  EXPECT_EQ(program.liveArenaBytes(), 400);
}

TEST(Program, AValueThatWaitsIsLiveInBetween) {
  Program program;
  program.launches = {
      launch({arena(0, 100, true)}),
      launch({arena(128, 300, true)}),
      launch({arena(128, 300, false), arena(448, 20, true)}),
      launch({arena(0, 100, false), arena(448, 20, false)}),
  };
  EXPECT_EQ(program.liveArenaBytes(), 100 + 300 + 20);
}

TEST(Program, APartThatIsReadKeepsTheWholeValue) {
  Program program;
  program.launches = {
      launch({arena(0, 256, true)}),
      launch({arena(256, 64, true)}),
      launch({arena(64, 64, false), arena(256, 64, false)}),
  };
  EXPECT_EQ(program.liveArenaBytes(), 320);
}

TEST(Program, AValueThatIsWrittenOverEndsAtItsLastReader) {
  Program program;
  program.launches = {
      launch({arena(0, 256, true)}),
      launch({arena(0, 256, false), arena(256, 64, true)}),
      launch({arena(0, 128, true)}),
      launch({arena(0, 128, false), arena(256, 64, false)}),
  };
  EXPECT_EQ(program.liveArenaBytes(), 320);
}

TEST(Program, NothingInTheArenaIsNothingLive) {
  EXPECT_EQ(Program().liveArenaBytes(), 0);
}
