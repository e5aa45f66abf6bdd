//===- DiskCacheTests.cpp - tests of the on-disk cache --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DiskCache.h"

#include "Environment.h"

#include "../TemporaryModel.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace mpc::detail;
namespace fs = std::filesystem;

namespace {

class DiskCacheTest : public mpc::TemporaryFolder {
protected:
  static std::vector<std::byte> bytes(size_t count, int seed) {
    std::vector<std::byte> result(count);
    for (size_t i = 0; i < count; ++i)
      result[i] = std::byte((i * 31 + size_t(seed) * 7) & 255);
    return result;
  }
  size_t files() const {
    return size_t(std::distance(fs::directory_iterator(folder),
                                fs::directory_iterator()));
  }
};

TEST_F(DiskCacheTest, FindsWhatWasStored) {
  DiskCache cache((folder / "a" / "b").string());
  EXPECT_FALSE(cache.find("k"));
  for (size_t size : {size_t(0), size_t(1), size_t(100000)}) {
    ASSERT_TRUE(cache.store("k", bytes(size, 1)));
    EXPECT_EQ(cache.find("k"), bytes(size, 1)) << size;
  }
  EXPECT_FALSE(cache.find("other"));
}

TEST_F(DiskCacheTest, DamagedEntriesAreMissing) {
  DiskCache cache(folder.string());
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
  std::ofstream(folder / "file") << "x";
  DiskCache blocked((folder / "file" / "folder").string());
  EXPECT_FALSE(blocked.store("k", bytes(10, 1)));
  EXPECT_FALSE(blocked.find("k"));
}

// Processes and threads that write and read one entry never see a part of one.
TEST_F(DiskCacheTest, ConcurrentWritersAndReaders) {
  DiskCache cache(folder.string());
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

//===----------------------------------------------------------------------===//
// Entries of two parts
//===----------------------------------------------------------------------===//

static std::vector<std::byte> copyOf(std::span<const std::byte> part) {
  return {part.begin(), part.end()};
}

TEST_F(DiskCacheTest, MapsBothParts) {
  DiskCache cache((folder / "a").string());
  EXPECT_FALSE(cache.map("k"));
  // Large ones may be copied to other pages.
  for (size_t size :
       {size_t(0), size_t(1), size_t(100000), (size_t(5) << 20) + 1}) {
    ASSERT_TRUE(cache.storeParts("k", bytes(size / 2, 1), bytes(size, 2)));
    auto entry = cache.map("k");
    ASSERT_TRUE(entry) << size;
    EXPECT_EQ(copyOf(entry->head), bytes(size / 2, 1));
    EXPECT_EQ(copyOf(entry->body), bytes(size, 2));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry->body.data()) % 64, 0u);
  }
  // Neither format is read as the other.
  EXPECT_FALSE(cache.find("k"));
  ASSERT_TRUE(cache.store("k", bytes(1000, 1)));
  EXPECT_FALSE(cache.map("k"));
  EXPECT_FALSE(DiskCache("").map("k"));
}

TEST_F(DiskCacheTest, DamagedHeadsAndSizesAreMissing) {
  DiskCache cache(folder.string());
  ASSERT_TRUE(cache.storeParts("k", bytes(100, 1), bytes(1000, 2)));
  std::string path = cache.pathOf("k");
  std::ifstream in(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(in)),
                    std::istreambuf_iterator<char>());
  auto write = [&](const std::string &text) {
    fs::remove(path);
    std::ofstream(path, std::ios::binary) << text;
  };
  // Magic, both sizes, digest, head; the body's bytes are the reader's.
  for (size_t at : {size_t(0), size_t(8), size_t(16), size_t(24), size_t(40),
                    size_t(64 + 1000), whole.size() - 1}) {
    std::string changed = whole;
    changed[at] ^= 1;
    write(changed);
    EXPECT_FALSE(cache.map("k")) << "byte " << at;
  }
  for (size_t size : {size_t(0), size_t(63), size_t(500), whole.size() - 1}) {
    write(whole.substr(0, size));
    EXPECT_FALSE(cache.map("k")) << size << " bytes";
  }
  write(whole + "x");
  EXPECT_FALSE(cache.map("k"));
  // Any writer of the file could inject code.
  write(whole);
  EXPECT_TRUE(cache.map("k"));
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.map("k"));
}

//===----------------------------------------------------------------------===//
// Other users
//===----------------------------------------------------------------------===//

TEST_F(DiskCacheTest, MakesFoldersAndEntriesForThisUserAlone) {
  mode_t before = ::umask(0);
  DiskCache cache((folder / "a" / "b").string());
  ASSERT_TRUE(cache.store("k", bytes(10, 1)));
  ::umask(before);
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder / "a" / "b").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(cache.pathOf("k")).permissions(), fs::perms(0600));
  EXPECT_FALSE(cache.newRefusal());
}

// Any writer of the folder, or of its parent, could inject code.
// runs.
TEST_F(DiskCacheTest, FoldersThatOthersMayWriteAreRefusedOnce) {
  fs::path root = folder / "root";
  for (const fs::path &open : {root / "cache", root})
    for (unsigned mode : {0770u, 0702u, 01777u}) {
      fs::remove_all(root);
      DiskCache cache((root / "cache").string());
      ASSERT_TRUE(cache.store("k", bytes(10, 1)));
      ASSERT_TRUE(cache.storeParts("p", {}, bytes(10, 2)));
      fs::permissions(open, fs::perms(mode));
      // As in /tmp, where the sticky bit protects the files of others.
      bool isSafe = open == root && mode == 01777;
      EXPECT_EQ(bool(cache.find("k")), isSafe) << open << mode;
      EXPECT_EQ(bool(cache.map("p")), isSafe) << open << mode;
      EXPECT_EQ(cache.store("l", bytes(10, 1)), isSafe) << open << mode;
      auto refusal = cache.newRefusal();
      if (mode == 0770) {
        ASSERT_TRUE(refusal);
        EXPECT_EQ(refusal->folder, open.string());
        EXPECT_NE(refusal->text.find("(mode 770)"), std::string::npos)
            << refusal->text;
      } else {
        EXPECT_FALSE(refusal) << "the folder was refused before";
      }
      EXPECT_EQ(fs::status(open).permissions(), fs::perms(mode));
      fs::permissions(open, fs::perms::owner_all);
      EXPECT_TRUE(cache.find("k"));
    }
}

TEST_F(DiskCacheTest, FoldersOfOthersAreRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root gives files away";
  fs::path root = folder / "root";
  DiskCache cache((root / "cache").string());
  ASSERT_TRUE(cache.store("k", bytes(10, 1)));
  for (const fs::path &given : {root / "cache", root}) {
    ASSERT_EQ(chown(given.c_str(), 4242, gid_t(-1)), 0);
    EXPECT_FALSE(cache.find("k"));
    EXPECT_FALSE(cache.store("l", bytes(10, 1)));
    auto refusal = cache.newRefusal();
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->folder, given.string());
    EXPECT_NE(refusal->text.find("belongs to user 4242"), std::string::npos);
    ASSERT_EQ(chown(given.c_str(), 0, gid_t(-1)), 0);
  }
  ASSERT_EQ(chown(cache.pathOf("k").c_str(), 4242, gid_t(-1)), 0);
  EXPECT_FALSE(cache.find("k"));
}

TEST_F(DiskCacheTest, LinksAreRefused) {
  fs::path root = folder / "root";
  DiskCache cache((root / "cache").string());
  ASSERT_TRUE(cache.store("k", bytes(10, 1)));
  for (const fs::path &linked : {root / "cache", root}) {
    fs::path other = folder / "other";
    fs::rename(linked, other);
    fs::create_directory_symlink(other, linked);
    EXPECT_FALSE(cache.find("k"));
    EXPECT_FALSE(cache.store("l", bytes(10, 1)));
    auto refusal = cache.newRefusal();
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->folder, linked.string());
    EXPECT_NE(refusal->text.find("is a symbolic link"), std::string::npos);
    fs::remove(linked);
    fs::rename(other, linked);
  }
  // An entry as well, which a new one replaces.
  fs::rename(cache.pathOf("k"), folder / "entry");
  fs::create_symlink(folder / "entry", cache.pathOf("k"));
  EXPECT_FALSE(cache.find("k"));
  ASSERT_TRUE(cache.store("k", bytes(10, 2)));
  EXPECT_FALSE(fs::is_symlink(cache.pathOf("k")));
  EXPECT_EQ(cache.find("k"), bytes(10, 2));
}

TEST_F(DiskCacheTest, AFolderThatCannotBeWrittenIsReportedOnce) {
  DiskCache good((folder / "good").string());
  ASSERT_TRUE(good.store("k", bytes(10, 1)));
  EXPECT_FALSE(good.newWriteFailure());
  std::ofstream(folder / "file") << "x";
  DiskCache bad((folder / "file" / "cache").string());
  EXPECT_FALSE(bad.store("k", bytes(10, 1)));
  auto failure = bad.newWriteFailure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->folder, (folder / "file" / "cache").string());
  EXPECT_NE(failure->text.find("Not a directory"), std::string::npos)
      << failure->text;
  EXPECT_FALSE(bad.newWriteFailure());
}

TEST_F(DiskCacheTest, EvictsWhatWasUsedLongestAgo) {
  DiskCache cache(folder.string(), /*mostBytes=*/4000);
  auto age = [&](const std::string &key, int minutes) {
    fs::last_write_time(cache.pathOf(key), fs::file_time_type::clock::now() -
                                               std::chrono::minutes(minutes));
  };
  for (const char *key : {"a", "b", "c"})
    ASSERT_TRUE(cache.storeParts(key, {}, bytes(1000, key[0])));
  age("a", 30);
  age("b", 20);
  age("c", 10);
  // An entry that is found is in use, and stays valid after its deletion.
  auto used = cache.map("a");
  ASSERT_TRUE(used);
  ASSERT_TRUE(cache.storeParts("d", {}, bytes(1000, 'd')));
  EXPECT_FALSE(cache.map("b"));
  for (const char *key : {"a", "c", "d"})
    EXPECT_TRUE(cache.map(key)) << key;
  ASSERT_TRUE(cache.storeParts("e", {}, bytes(3500, 'e')));
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(copyOf(used->body), bytes(1000, 'a'));
  // An entry that exceeds the limit evicts nothing.
  EXPECT_FALSE(cache.storeParts("f", {}, bytes(4000, 'f')));
  EXPECT_TRUE(cache.map("e"));
}

TEST_F(DiskCacheTest, EvictsWhatNobodyFinished) {
  DiskCache cache(folder.string(), /*mostBytes=*/2000);
  for (const char *name : {"k.1.0", "k.2.0"})
    std::ofstream(folder / name) << std::string(1500, 'x');
  fs::last_write_time(folder / "k.1.0",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache.storeParts("k", {}, bytes(1000, 1)));
  EXPECT_FALSE(fs::exists(folder / "k.1.0"));
  EXPECT_TRUE(fs::exists(folder / "k.2.0")) << "another process may write it";
  EXPECT_TRUE(cache.map("k"));
}

// A reader sees all of an entry or none, whatever others write and delete.
TEST_F(DiskCacheTest, ConcurrentEviction) {
  DiskCache cache(folder.string(), /*mostBytes=*/70000);
  auto hammer = [&](int seed) {
    for (int i = 0; i < 100; ++i) {
      int number = (seed + i) % 6;
      std::string key = "k" + std::to_string(number);
      if (!cache.storeParts(key, bytes(100, number), bytes(20000, number)))
        return false;
      std::string other = "k" + std::to_string((seed + 3 * i) % 6);
      auto found = cache.map(other);
      if (found && (copyOf(found->head) != bytes(100, other[1] - '0') ||
                    copyOf(found->body) != bytes(20000, other[1] - '0')))
        return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 3; ++process) {
    pid_t child = fork();
    if (child == 0)
      _exit(hammer(process) ? 0 : 1);
    children.push_back(child);
  }
  EXPECT_TRUE(hammer(3));
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_LE(files(), 3u);
}

TEST_F(DiskCacheTest, WritesPagesInPlace) {
  DiskCache cache(folder.string(), size_t(8) << 20);
  for (size_t size : {size_t(1), size_t(100), size_t(4096), size_t(5) << 20}) {
    std::string key = "k" + std::to_string(size);
    EXPECT_FALSE(cache.mapPages(key, size));
    std::vector<std::byte> expected = bytes(size, 1);
    auto stored = cache.storePages(key, size, [&](std::span<std::byte> target) {
      std::ranges::copy(expected, target.begin());
      return true;
    });
    ASSERT_TRUE(stored);
    auto mapped = cache.mapPages(key, size);
    ASSERT_TRUE(mapped);
    for (const auto &held : {stored, mapped})
      EXPECT_EQ(std::memcmp(held.get(), expected.data(), size), 0) << size;
    EXPECT_FALSE(cache.mapPages(key, size + 1));
  }
  // Nothing remains of what fails, or exceeds the limit.
  size_t before = files();
  auto refuse = [](std::span<std::byte>) { return false; };
  EXPECT_FALSE(cache.storePages("failed", 100, refuse));
  EXPECT_FALSE(cache.storePages("large", size_t(9) << 20,
                                [](std::span<std::byte>) { return true; }));
  EXPECT_EQ(files(), before);
}

TEST_F(DiskCacheTest, TruncatedPagesAreMissing) {
  DiskCache cache(folder.string());
  auto zeros = [](std::span<std::byte>) { return true; };
  ASSERT_TRUE(cache.storePages("k", 5000, zeros));
  fs::resize_file(cache.pathOf("k"), 5000);
  EXPECT_FALSE(cache.mapPages("k", 5000));
  fs::resize_file(cache.pathOf("k"), 5056 + 16);
  EXPECT_FALSE(cache.mapPages("k", 5000));
}

TEST_F(DiskCacheTest, PagesOfEarlierBootsAreVerified) {
  DiskCache cache(folder.string());
  constexpr size_t kSize = 128 * 64;
  std::vector<std::byte> expected = bytes(kSize, 5);
  ASSERT_TRUE(cache.storePages("k", kSize, [&](std::span<std::byte> target) {
    std::ranges::copy(expected, target.begin());
    return true;
  }));
  auto change = [&](size_t at) {
    std::fstream file(cache.pathOf("k"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(std::streamoff(at));
    char byte = char(file.get());
    file.seekp(std::streamoff(at));
    file.put(char(byte ^ 1));
  };
  // Magic number, size and checksum precede the boot's name.
  constexpr size_t kBoot = kSize + 8 + 8 + 8;
  change(kBoot);
  EXPECT_TRUE(cache.mapPages("k", kSize));
  // The name was corrected, so that a lost page would not be found again.
  change(100);
  EXPECT_TRUE(cache.mapPages("k", kSize));
  EXPECT_FALSE(cache.mapPages("k", kSize, /*verifies=*/true));
  change(kBoot);
  EXPECT_FALSE(cache.mapPages("k", kSize));
  change(100);
  EXPECT_TRUE(cache.mapPages("k", kSize, /*verifies=*/true));
}

TEST_F(DiskCacheTest, KilledWritersLeaveNoPages) {
  DiskCache cache(folder.string());
  constexpr size_t kSize = size_t(4) << 20;
  std::vector<std::byte> expected = bytes(kSize, 3);
  for (int round = 0; round < 20; ++round) {
    pid_t child = fork();
    if (child == 0) {
      cache.storePages("k", kSize, [&](std::span<std::byte> target) {
        std::ranges::copy(expected, target.begin());
        return true;
      });
      _exit(0);
    }
    usleep(useconds_t(round) * 200);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    if (auto mapped = cache.mapPages("k", kSize))
      EXPECT_EQ(std::memcmp(mapped.get(), expected.data(), kSize), 0);
    fs::remove(cache.pathOf("k"));
  }
}

TEST(CacheBytes, ReadsUnits) {
  auto bytes = [](const char *text) {
    setenv("MPC_CACHE_SIZE", text, 1);
    uint64_t read = cacheBytes();
    unsetenv("MPC_CACHE_SIZE");
    return read;
  };
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("1000"), 1000u);
  EXPECT_EQ(bytes("3K"), 3072u);
  EXPECT_EQ(bytes("2G"), uint64_t(2) << 30);
  for (const char *bad : {"", "G", "-1", "1.5G", "1g", "1 G", "9999999999T"})
    EXPECT_EQ(bytes(bad), bytes("")) << bad;
  EXPECT_GE(bytes(""), uint64_t(4) << 30);
  EXPECT_LE(bytes(""), uint64_t(64) << 30);
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
