//===- NpyTests.cpp - tests of the array files ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Npy.h"

#include "../TemporaryModel.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

using namespace mpc;

namespace {

/// A file's bytes with that dictionary and payload.
std::string npyFile(const std::string &dictionary, const std::string &payload,
                    char major = 1) {
  std::string file("\x93NUMPY", 6);
  file += major;
  file += '\0';
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  if (major > 1)
    file += std::string(2, '\0');
  return file + dictionary + payload;
}

Result<Buffer> readBytes(const std::string &bytes) {
  size_t at = 0;
  return readNpyFrom(
      [&](void *out, size_t count) -> Status {
        if (bytes.size() - at < count)
          return Status(StatusCode::InvalidArgument, "test", "ends too early");
        std::memcpy(out, bytes.data() + at, count);
        at += count;
        return {};
      },
      bytes.size(), "test");
}

class NpyFileTest : public TemporaryFolder {
protected:
  std::string contents(const std::string &name) {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

} // namespace

TEST(Npy, ReadsWhatNumpyWrites) {
  float values[6] = {0, 1, 2, 3, 4, 5};
  std::string payload(reinterpret_cast<char *>(values), sizeof(values));
  for (char version : {1, 2, 3}) {
    Result<Buffer> buffer = readBytes(npyFile(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n",
        payload, version));
    ASSERT_TRUE(buffer.ok()) << buffer.status().toString();
    EXPECT_EQ(buffer->type().toString(), "f32[2,3]");
    EXPECT_EQ(buffer->as<float>()[5], 5);
  }
}

TEST(Npy, ColumnMajorBecomesRowMajor) {
  int32_t values[6] = {0, 3, 1, 4, 2, 5};
  std::string payload(reinterpret_cast<char *>(values), sizeof(values));
  Result<Buffer> buffer = readBytes(npyFile(
      "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", payload));
  ASSERT_TRUE(buffer.ok()) << buffer.status().toString();
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(buffer->as<int32_t>()[i], i);
}

TEST(Npy, EveryTypeRoundTrips) {
  for (int i = 0; i <= static_cast<int>(ElementType::F64); ++i) {
    TensorType type{static_cast<ElementType>(i), {2, 1}};
    Buffer data = *Buffer::allocate(type);
    static_cast<char *>(data.data())[0] = 1;
    std::string file = makeNpyHeader(type);
    EXPECT_EQ(file.size() % 64, 0u);
    file.append(static_cast<char *>(data.data()), data.size());
    Result<Buffer> back = readBytes(file);
    ASSERT_TRUE(back.ok()) << back.status().toString();
    EXPECT_EQ(back->type(), type);
    EXPECT_EQ(std::memcmp(back->data(), data.data(), data.size()), 0);
  }
}

TEST(Npy, ScalarsAndVectorsHavePythonTuples) {
  EXPECT_NE(makeNpyHeader({ElementType::F32, {}}).find("'shape': ()"),
            std::string::npos);
  EXPECT_NE(makeNpyHeader({ElementType::F32, {3}}).find("'shape': (3,)"),
            std::string::npos);
  EXPECT_NE(makeNpyHeader({ElementType::BF16, {3}}).find("'<V2'"),
            std::string::npos);
}

TEST(Npy, RefusalsNameTheReason) {
  struct Case {
    std::string bytes, message;
  };
  std::string good = "'fortran_order': False, 'shape': (1,)";
  std::vector<Case> cases = {
      {"", "does not start with NumPy's magic string"},
      {"PK\x03\x04 something else", "does not start with NumPy's magic string"},
      {npyFile("{'descr': '<f4', " + good + "}", "abcd", 9), "version 9"},
      {npyFile("{'descr': '<f4', " + good + "}", "abc"), "has 3 bytes"},
      {npyFile("{'descr': '<f4', " + good + "}", "abcde"), "has 5 bytes"},
      {npyFile("{'descr': '>f4', " + good + "}", "abcd"), "big-endian"},
      {npyFile("{'descr': '|O', " + good + "}", "abcd"),
       "'|O' is not supported"},
      {npyFile("{'descr': '<c8', " + good + "}", "abcdabcd"),
       "'<c8' is not supported"},
      {npyFile("{'descr': [('a', '<f4')], " + good + "}", "abcd"),
       "structured array"},
      {npyFile("{'descr': '<f4', 'shape': (1,)}", "abcd"), "lacks descr"},
      {npyFile("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "abcd"),
       "neither True nor False"},
      {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
               "abcd"),
       "an entry that is not an extent"},
      {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(99999999999999999999,)}",
               "abcd"),
       "does not fit in 63 bits"},
      {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': "
               "(4611686018427387904, 8)}",
               "abcd"),
       "has 4 bytes"},
      {npyFile("{'descr': '<f4', " + good + ", 'more': 1}", "abcd"),
       "unexpected key 'more'"},
      {npyFile("{'descr': '<f4', " + good + "} __import__", "abcd"),
       "has data after"},
      {npyFile("{'descr': '<f4', " + good, "abcd"), "header"},
  };
  for (const Case &test : cases) {
    Result<Buffer> buffer = readBytes(test.bytes);
    ASSERT_FALSE(buffer.ok()) << test.message;
    EXPECT_NE(buffer.status().text().find(test.message), std::string::npos)
        << buffer.status().text();
  }
}

TEST(Npy, RandomChangesNeverCrash) {
  Buffer data = *Buffer::allocate({ElementType::F32, {3, 4}});
  std::string file = makeNpyHeader(data.type());
  file.append(static_cast<char *>(data.data()), data.size());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string mutant =
        file.substr(0, i % 7 ? file.size() : random() % file.size());
    for (unsigned flips = random() % 4 + 1; flips > 0 && !mutant.empty();
         --flips)
      mutant[random() % std::min<size_t>(mutant.size(), 80)] ^=
          char(1 << random() % 8);
    refused += !readBytes(mutant).ok();
  }
  EXPECT_GT(refused, 2500);
}

TEST_F(NpyFileTest, NpzRoundTrips) {
  std::array<float, 2> values = {1.5f, -2};
  std::vector<NamedArray> arrays = {
      {"a/b", *Buffer::fromValues<float>({ElementType::F32, {2}}, values), ""},
      {"c", *Buffer::allocate({ElementType::I64, {}}), ""}};
  Status status = writeNpz(path("x.npz"), arrays);
  ASSERT_TRUE(status.ok()) << status.toString();
  Result<std::vector<NamedArray>> back = readNpz(path("x.npz"));
  ASSERT_TRUE(back.ok()) << back.status().toString();
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ((*back)[0].name, "a/b");
  EXPECT_EQ((*back)[0].data.as<float>()[1], -2);
  EXPECT_EQ((*back)[1].data.type().toString(), "i64[]");
  // Equal arrays give equal files.
  ASSERT_TRUE(writeNpz(path("y.npz"), arrays).ok());
  EXPECT_EQ(contents("x.npz"), contents("y.npz"));
}

TEST_F(NpyFileTest, ADeviceIsNotReplacedByAnArchive) {
  std::vector<NamedArray> arrays = {
      {"a", *Buffer::allocate({ElementType::F32, {4}}), ""}};
  Status status = writeNpz("/dev/null", arrays);
  EXPECT_NE(status.toString().find("is a device or a pipe"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(NpyFileTest, MoreBytesThanAllowedAreNotRead) {
  std::vector<NamedArray> arrays = {
      {"a", *Buffer::allocate({ElementType::F32, {4}}), ""},
      {"b", *Buffer::allocate({ElementType::F32, {8}}), ""}};
  ASSERT_TRUE(writeNpz(path("x.npz"), arrays).ok());
  EXPECT_TRUE(readNpz(path("x.npz"), 48).ok());
  Status status = readNpz(path("x.npz"), 47).status();
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  // The memory budget that the first array used is missing for the second.
  EXPECT_NE(status.toString().find("array 'b': has 32 bytes (f32[8]), but at "
                                   "most 31 are allowed"),
            std::string::npos)
      << status.toString();
  ASSERT_TRUE(writeNpy(path("x.npy"), arrays[1].data).ok());
  EXPECT_TRUE(readNpy(path("x.npy"), 32).ok());
  EXPECT_EQ(readNpy(path("x.npy"), 31).status().code(),
            StatusCode::ResourceExhausted);
}

TEST_F(NpyFileTest, DamagedArchivesAreRefused) {
  std::vector<NamedArray> arrays = {
      {"a", *Buffer::allocate({ElementType::F32, {64}}), ""}};
  ASSERT_TRUE(writeNpz(path("x.npz"), arrays).ok());
  std::string good = contents("x.npz");
  write("cut.npz", good.substr(0, good.size() / 2));
  EXPECT_FALSE(readNpz(path("cut.npz")).ok());
  std::string flipped = good;
  flipped[good.find("NUMPY") + 200] ^= 1;
  write("flip.npz", flipped);
  Result<std::vector<NamedArray>> damaged = readNpz(path("flip.npz"));
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.status().where().find("array 'a'"), std::string::npos);
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    std::string mutant =
        good.substr(0, i % 5 ? good.size() : random() % good.size());
    for (int flips = 0; flips < 3 && !mutant.empty(); ++flips)
      mutant[random() % mutant.size()] ^= char(1 << random() % 8);
    write("m.npz", mutant);
    (void)readNpz(path("m.npz")).ok();
  }
  EXPECT_FALSE(readNpz(path("missing.npz")).ok());
  EXPECT_FALSE(readNpz(folder.string()).ok());
}

TEST_F(NpyFileTest, WritingFailsWhole) {
  Buffer data = *Buffer::allocate({ElementType::F32, {2}});
  EXPECT_FALSE(writeNpz(path("no/such/folder.npz"), {{"a", data, ""}}).ok());
  EXPECT_FALSE(writeNpy(path("no/such/folder.npy"), data).ok());
  EXPECT_FALSE(writeNpy(folder.string(), data).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ASSERT_TRUE(writeNpy(path("x.npy"), data).ok());
  EXPECT_TRUE(readNpy(path("x.npy")).ok());
}
