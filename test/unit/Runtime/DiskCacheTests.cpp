//===- DiskCacheTests.cpp - results kept between processes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

using namespace mpc::detail;
namespace fs = std::filesystem;

namespace {

class DiskCacheTest : public ::testing::Test {
protected:
  DiskCacheTest() {
    std::string pattern = (fs::temp_directory_path() / "mpc-XXXXXX").string();
    root = mkdtemp(pattern.data());
  }
  ~DiskCacheTest() override { fs::remove_all(root); }

  static std::vector<std::byte> bytes(size_t count, int seed) {
    std::vector<std::byte> result(count);
    for (size_t i = 0; i < count; ++i)
      result[i] = std::byte((i * 31 + size_t(seed) * 7) & 255);
    return result;
  }
  size_t files() const {
    return size_t(
        std::distance(fs::directory_iterator(root), fs::directory_iterator()));
  }

  fs::path root;
};

TEST_F(DiskCacheTest, FindsWhatWasStored) {
  DiskCache cache((root / "a" / "b").string());
  EXPECT_FALSE(cache.find("k"));
  for (size_t size : {size_t(0), size_t(1), size_t(100000)}) {
    ASSERT_TRUE(cache.store("k", bytes(size, 1)));
    EXPECT_EQ(cache.find("k"), bytes(size, 1)) << size;
  }
  EXPECT_FALSE(cache.find("other"));
}

TEST_F(DiskCacheTest, DamagedEntriesAreMissing) {
  DiskCache cache(root.string());
  ASSERT_TRUE(cache.store("k", bytes(1000, 1)));
  std::string path = cache.pathOf("k");
  std::ifstream in(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(in)),
                    std::istreambuf_iterator<char>());
  auto write = [&](const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  for (size_t at : {size_t(0), size_t(9), whole.size() - 1}) {
    std::string changed = whole;
    changed[at] ^= 1;
    write(changed);
    EXPECT_FALSE(cache.find("k")) << "byte " << at;
  }
  for (size_t size : {size_t(0), size_t(20), whole.size() - 1}) {
    write(whole.substr(0, size));
    EXPECT_FALSE(cache.find("k")) << size << " bytes";
  }
  write(whole + "x");
  EXPECT_FALSE(cache.find("k"));
  ASSERT_TRUE(cache.store("k", bytes(1000, 2)));
  EXPECT_EQ(cache.find("k"), bytes(1000, 2));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_FALSE(cache.find("k"));
}

TEST_F(DiskCacheTest, KeepsNothingWhereItCannotWrite) {
  DiskCache nowhere("");
  EXPECT_FALSE(nowhere.store("k", bytes(10, 1)));
  EXPECT_FALSE(nowhere.find("k"));
  std::ofstream(root / "file") << "x";
  DiskCache blocked((root / "file" / "folder").string());
  EXPECT_FALSE(blocked.store("k", bytes(10, 1)));
  EXPECT_FALSE(blocked.find("k"));
}

// Processes and threads that write and read one entry never see a part of one.
TEST_F(DiskCacheTest, ConcurrentWritersAndReaders) {
  DiskCache cache(root.string());
  auto hammer = [&](int seed) {
    for (int i = 0; i < 50; ++i) {
      if (!cache.store("k", bytes(20000, seed)))
        return false;
      auto found = cache.find("k");
      if (!found)
        return false;
      bool whole = false;
      for (int writer = 0; writer < 4; ++writer)
        whole |= *found == bytes(20000, writer);
      if (!whole)
        return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 2; ++process) {
    pid_t child = fork();
    if (child == 0)
      _exit(hammer(process) ? 0 : 1);
    children.push_back(child);
  }
  bool good[2] = {};
  std::thread first([&] { good[0] = hammer(2); });
  std::thread second([&] { good[1] = hammer(3); });
  first.join();
  second.join();
  EXPECT_TRUE(good[0] && good[1]);
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(files(), 1u) << "temporary files are left over";
}

TEST(ContentKey, LengthsCount) {
  auto key = [](std::vector<std::string_view> parts) {
    return contentKey(parts);
  };
  EXPECT_EQ(key({"ab", "c"}), key({"ab", "c"}));
  EXPECT_NE(key({"ab", "c"}), key({"a", "bc"}));
  EXPECT_NE(key({"ab"}), key({"ab", ""}));
  EXPECT_EQ(key({}).size(), 64u);
}

} // namespace
