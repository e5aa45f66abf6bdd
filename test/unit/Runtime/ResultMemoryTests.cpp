//===- ResultMemoryTests.cpp - tests of reused result memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResultMemory.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using namespace mpc;
using mpc::detail::ResultMemory;

static const TensorType kLarge{ElementType::F32, {1 << 16}};
static const TensorType kOther{ElementType::F32, {1 << 15}};
static const TensorType kSmall{ElementType::F32, {16}};

/// A program of two large results, one that replaces an argument, and a small
/// one.
static std::shared_ptr<ResultMemory> makeMemory() {
  Program program;
  program.results = {{.name = "a", .type = kLarge},
                     {.name = "b", .type = kOther},
                     {.name = "c", .type = kLarge, .alias = 0},
                     {.name = "d", .type = kSmall}};
  return std::make_shared<ResultMemory>(program);
}

TEST(ResultMemory, GoesFromResultToResult) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  Buffer first = *memory->allocate(kLarge);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % kBufferAlignment, 0u);
  EXPECT_EQ(first.type(), kLarge);
  first.as<float>()[0] = 7;
  const void *place = first.data();
  Buffer copy = first;
  first = Buffer();
  // A copy still reads it.
  EXPECT_EQ(memory->keptBytes(), 0u);
  EXPECT_NE((*memory->allocate(kLarge)).data(), place);
  copy = Buffer();
  EXPECT_EQ(memory->keptBytes(), size_t(1) << 18);
}

TEST(ResultMemory, IsOfItsSize) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  const void *place = (*memory->allocate(kLarge)).data();
  EXPECT_NE((*memory->allocate(kOther)).data(), place);
  EXPECT_EQ((*memory->allocate(kLarge)).data(), place);
}

TEST(ResultMemory, KeepsWhatARunNeeds) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  {
    std::vector<Buffer> held;
    for (int i = 0; i < 3; ++i)
      for (const TensorType &type : {kLarge, kOther, kSmall})
        held.push_back(*memory->allocate(type));
  }
  EXPECT_LE(memory->keptBytes(), size_t(3) << 17);
  EXPECT_GE(memory->keptBytes(), size_t(1) << 18);
}

TEST(ResultMemory, SmallResultsAreNotKept) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  (void)*memory->allocate(kSmall);
  EXPECT_EQ(memory->keptBytes(), 0u);
}

TEST(ResultMemory, ResultsOutliveIt) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  Buffer result = *memory->allocate(kLarge);
  memory.reset();
  result.as<float>()[5] = 3;
  EXPECT_EQ(result.as<float>()[5], 3);
}

TEST(ResultMemory, ThreadsShareIt) {
  std::shared_ptr<ResultMemory> memory = makeMemory();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        Buffer result = *memory->allocate(i % 2 ? kLarge : kOther);
        result.as<float>()[0] = float(t);
        EXPECT_EQ(result.as<float>()[0], float(t));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LE(memory->keptBytes(), size_t(3) << 17);
}
