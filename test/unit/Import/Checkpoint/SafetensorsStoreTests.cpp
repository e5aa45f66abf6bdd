//===- SafetensorsStoreTests.cpp - weights of safetensors files -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SafetensorsStore.h"

#include "ModelFolder.h"

#include <filesystem>

using namespace mpc;
using namespace mpc::checkpoint;

namespace {

class SafetensorsStoreTest : public TemporaryFolder {
protected:
  static constexpr const char *kSingle = "model.safetensors",
                              *kIndex = "model.safetensors.index.json";

  /// Returns the message of the failure to open the folder.
  std::string failure() {
    Result<std::unique_ptr<WeightStore>> store =
        openSafetensors(folder.string());
    return store.ok() ? "opened" : store.status().toString();
  }
  void expectFailure(const std::string &text) {
    std::string found = failure();
    EXPECT_NE(found.find(text), std::string::npos) << found;
  }
  /// Two shards with one tensor each.
  void writeShards() {
    write("a.safetensors",
          safetensors("{" + entry("x", "F32", "[2]", 0, 8) + "}", "abcdefgh"));
    write("b.safetensors",
          safetensors("{" + entry("y", "BF16", "[1,2]", 0, 4) + "}", "ABCD"));
  }
};

} // namespace

TEST_F(SafetensorsStoreTest, ReadsTensors) {
  write(kSingle, safetensors("{\"__metadata__\":{\"format\":\"pt\"}," +
                                 entry("b", "F8_E4M3", "[3]", 8, 11) + "," +
                                 entry("a", "F32", "[1,2]", 0, 8) + "}",
                             "abcdefghXYZ"));
  Result<std::unique_ptr<WeightStore>> store = openSafetensors(folder.string());
  ASSERT_TRUE(store.ok()) << store.status().toString();
  EXPECT_EQ((*store)->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*store)->find("c"), nullptr);
  const StoredTensor *a = (*store)->find("a"), *b = (*store)->find("b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->type, (TensorType{ElementType::F32, {1, 2}}));
  EXPECT_EQ(b->type, (TensorType{ElementType::F8E4M3FN, {3}}));
  EXPECT_NE(a->identity, b->identity);
  // Aligned, though the header has no padding.
  Result<std::shared_ptr<const std::byte>> bytes = (*store)->read("a");
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(std::memcmp(bytes->get(), "abcdefgh", 8), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes->get()) % 4, 0u);
  // The bytes outlive the store.
  bytes = (*store)->read("b");
  store->reset();
  EXPECT_EQ(std::memcmp(bytes->get(), "XYZ", 3), 0);
}

TEST_F(SafetensorsStoreTest, IdentitiesDependOnContents) {
  auto identity = [&](const char *data) {
    write(kSingle,
          safetensors("{" + entry("x", "F32", "[1]", 0, 4) + "}", data));
    return (*openSafetensors(folder.string()))->find("x")->identity;
  };
  std::string first = identity("abcd");
  EXPECT_EQ(identity("abcd"), first);
  EXPECT_NE(identity("abce"), first);
}

TEST_F(SafetensorsStoreTest, ReadsShards) {
  writeShards();
  write(kIndex, R"({"metadata":{},"weight_map":{"x":"a.safetensors",
                    "y":"b.safetensors"}})");
  Result<std::unique_ptr<WeightStore>> store = openSafetensors(folder.string());
  ASSERT_TRUE(store.ok()) << store.status().toString();
  EXPECT_EQ((*store)->names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(std::memcmp((*store)->read("y")->get(), "ABCD", 4), 0);
}

TEST_F(SafetensorsStoreTest, RefusesWrongIndices) {
  writeShards();
  auto expect = [&](const std::string &index, const std::string &text) {
    write(kIndex, index);
    expectFailure(text);
  };
  expect("[]", "has an index that is not a JSON object");
  expect(R"({"weight_map":{}})", "has no weight_map");
  expect(R"({"weight_map":{"x":3}})", "with no file name for 'x'");
  expect(R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})",
         "with a duplicate name");
  expect(R"({"weight_map":{"x":"b.safetensors"}})",
         "lists the tensor 'x' in 'b.safetensors', which does not have it");
  expect(R"({"weight_map":{"x":"c.safetensors"}})", "cannot be opened");
  expectFailure("; model.safetensors.index.json lists this shard");
  expect(R"({"weight_map":{"x":"../a.safetensors"}})",
         "is not inside the model's folder");
  expect(R"({"weight_map":{"x":"/a.safetensors"}})",
         "is not inside the model's folder");
  write("b.safetensors",
        safetensors("{" + entry("x", "F32", "[2]", 0, 8) + "}", "abcdefgh"));
  expect(R"({"weight_map":{"x":"a.safetensors","z":"b.safetensors"}})",
         "has the tensor 'x', which an earlier shard has, too");
  std::filesystem::remove((folder / "b.safetensors"));
  std::filesystem::create_symlink("a.safetensors", (folder / "b.safetensors"));
  expect(R"({"weight_map":{"x":"b.safetensors"}})", "is a symbolic link");
  std::filesystem::remove((folder / "b.safetensors"));
  std::filesystem::create_directory((folder / "b.safetensors"));
  expect(R"({"weight_map":{"x":"b.safetensors"}})", "is not a regular file");
}

TEST_F(SafetensorsStoreTest, RefusesWrongFiles) {
  auto expect = [&](const std::string &bytes, const std::string &text) {
    write(kSingle, bytes);
    expectFailure(text);
  };
  auto header = [](const std::string &dtype, const std::string &shape,
                   size_t begin, size_t end) {
    return safetensors("{" + entry("x", dtype, shape, begin, end) + "}",
                       "abcdefgh");
  };
  expectFailure("has neither model.safetensors nor model.safetensors.index");
  expect("", "is empty");
  expect("abc", "is too short");
  expect("\xff\xff\xff\xff\xff\xff\xff\x7f{}", "declares a header of");
  expect(std::string(8, '\0') + "{}", "is not a JSON object");
  expect(safetensors("{\"x\":"), "is not a JSON object");
  expect(safetensors(std::string(1 << 20, '[')), "nested deeper than 64");
  expect(header("F32", "[2]", 0, 12), "its offsets are [0, 12) of 8 bytes");
  expect(header("F32", "[2]", 8, 0), "its offsets are [8, 0)");
  expect(header("F32", "[3]", 0, 8), "is f32[3], but its offsets are [0, 8)");
  expect(header("F32", "[4611686018427387904,4]", 0, 8), "but its offsets");
  expect(header("F32", "[-2]", 0, 8), "lacks a dtype, a shape");
  expect(header("F32", "[2.0]", 0, 8), "lacks a dtype, a shape");
  expect(header("F32", "[1]", 0, 4),
         "has 8 bytes of data, but its tensors have 4");
  expect(header("F32", "[1]", 4, 8),
         "has 8 bytes of data, but its tensors have 4");
  expect(safetensors("{\"x\":{\"dtype\":" + std::string(1000000, '[') +
                     std::string(1000000, ']') + "}}"),
         "nested deeper than 64");
  expect(header("F4", "[2]", 0, 8), "has the dtype 'F4', which is not");
  expect(safetensors("{" + entry("x", "F32", "[1]", 0, 4) + "," +
                         entry("y", "F32", "[1]", 2, 6) + "}",
                     "abcdefgh"),
         "overlaps another");
  expect(safetensors("{" + entry("x", "F32", "[1]", 0, 4) + "," +
                         entry("x", "F32", "[1]", 4, 8) + "}",
                     "abcdefgh"),
         "with a duplicate name");
}
