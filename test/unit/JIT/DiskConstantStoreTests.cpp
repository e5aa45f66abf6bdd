//===- DiskConstantStoreTests.cpp - tests of the store of constants -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/DiskConstantStore.h"

#include "../TemporaryModel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

using namespace mpc;
using mpc::detail::DiskCache;

namespace {

class DiskConstantStoreTest : public TemporaryFolder {
protected:
  /// Fills with `letter` and counts the calls.
  ConstantFill fillWith(char letter) {
    return [this, letter](llvm::MutableArrayRef<char> target) {
      ++fills;
      llvm::fill(target, letter);
      return llvm::success();
    };
  }
  static std::string textOf(const std::shared_ptr<const void> &bytes,
                            size_t size) {
    return {static_cast<const char *>(bytes.get()), size};
  }

  int fills = 0;
};

TEST_F(DiskConstantStoreTest, SharesBytesInMemoryWhileTheyAreUsed) {
  DiskConstantStore one, other;
  std::shared_ptr<const void> first = one.get("memory", 5000, fillWith('a'));
  ASSERT_TRUE(first);
  EXPECT_EQ(other.get("memory", 5000, fillWith('b')), first);
  EXPECT_EQ(other.find("memory", 5000), first);
  EXPECT_FALSE(other.find("memory", 5001));
  EXPECT_FALSE(one.persists("memory", 5000));
  EXPECT_EQ(fills, 1);
  first.reset();
  EXPECT_FALSE(one.find("memory", 5000));
}

TEST_F(DiskConstantStoreTest, RemembersFacts) {
  DiskConstantStore store;
  store.get("fact", 8, fillWith('a'));
  std::shared_ptr<const void> known = store.find("fact", 8);
  ASSERT_TRUE(known);
  EXPECT_EQ(textOf(known, 8), "aaaaaaaa");
}

TEST_F(DiskConstantStoreTest, FindsBytesOfEarlierProcesses) {
  constexpr size_t kSize = DiskConstantStore::kLeastOnDisk;
  {
    DiskConstantStore store{DiskCache(folder.string())};
    EXPECT_FALSE(store.persists("disk", kSize));
    ASSERT_TRUE(store.get("disk", kSize, fillWith('a')));
    EXPECT_TRUE(store.persists("disk", kSize));
  }
  // Nothing refers to them in this process.
  DiskConstantStore store{DiskCache(folder.string())};
  std::shared_ptr<const void> found = store.find("disk", kSize);
  ASSERT_TRUE(found);
  EXPECT_EQ(textOf(found, kSize), std::string(kSize, 'a'));
  EXPECT_EQ(fills, 1);
}

TEST_F(DiskConstantStoreTest, FailsWithItsFill) {
  DiskConstantStore store{DiskCache(folder.string())};
  int calls = 0;
  ConstantFill refuse = [&](llvm::MutableArrayRef<char>) {
    ++calls;
    return llvm::failure();
  };
  for (size_t size : {size_t(8), size_t(2000), size_t(100000)})
    EXPECT_FALSE(store.get("failing", size, refuse));
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

} // namespace
