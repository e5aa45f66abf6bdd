//===- TokensTests.cpp - tests of texts as data sets ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"
#include "TokenFile.h"

#include "mpc/Support/Npy.h"
#include "mpc/Training/Dataset.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace mpc;
using namespace mpc::training;
namespace fs = std::filesystem;

namespace {

class TokensTest : public TemporaryFolder {};

/// 0, 1, 2, ... as the array that NumPy would write.
template <typename T> Buffer countUp(ElementType element, int64_t count) {
  std::vector<T> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), T(0));
  return *Buffer::fromValues<T>({element, {count}}, numbers);
}

} // namespace

TEST_F(TokensTest, MapsArraysAndBareTokens) {
  write("a.bin", std::string("\1\0\0\2\xff\xff", 6));
  Result<Buffer> bare = mapTokens(path("a.bin"));
  ASSERT_TRUE(bare.ok()) << bare.status().toString();
  EXPECT_EQ(bare->type(), (TensorType{ElementType::UI16, {3}}));
  EXPECT_EQ(bare->as<uint16_t>()[1], 512);
  EXPECT_EQ(bare->as<uint16_t>()[2], 65535);

  for (const Buffer &tokens : {countUp<uint16_t>(ElementType::UI16, 9),
                               countUp<int32_t>(ElementType::I32, 9),
                               countUp<int64_t>(ElementType::I64, 9)}) {
    ASSERT_TRUE(writeNpy(path("a.npy"), tokens).ok());
    Result<Buffer> mapped = mapTokens(path("a.npy"));
    ASSERT_TRUE(mapped.ok()) << mapped.status().toString();
    EXPECT_EQ(mapped->type(), tokens.type());
    EXPECT_EQ(std::memcmp(std::as_const(*mapped).data(),
                          std::as_const(tokens).data(), tokens.size()),
              0);
  }
}

TEST_F(TokensTest, RefusesWhatIsNoText) {
  auto textOf = [&](const std::string &name) {
    Result<Buffer> mapped = mapTokens(path(name));
    return mapped.ok() ? std::string("read") : mapped.status().text();
  };
  write("odd.bin", "abc");
  EXPECT_EQ(textOf("odd.bin"),
            "has 3 bytes, which is not a whole number of 16-bit tokens");
  write("empty.bin", "");
  EXPECT_EQ(textOf("empty.bin"), "is empty");
  write("bad.npy", "abcdefghijkl");
  EXPECT_NE(textOf("bad.npy").find("is not a .npy array"), std::string::npos);
  ASSERT_TRUE(
      writeNpy(path("float.npy"), *Buffer::allocate({ElementType::F32, {4}}))
          .ok());
  EXPECT_EQ(textOf("float.npy"),
            "is f32[4], but tokens must be integers in one dimension");
  ASSERT_TRUE(
      writeNpy(path("rows.npy"), *Buffer::allocate({ElementType::I32, {2, 2}}))
          .ok());
  EXPECT_EQ(textOf("rows.npy"),
            "is i32[2,2], but tokens must be integers in one dimension");
  fs::resize_file(path("rows.npy"), fs::file_size(path("rows.npy")) - 1);
  EXPECT_NE(textOf("rows.npy"), "read");
  ASSERT_TRUE(
      writeNpy(path("cut.npy"), countUp<int32_t>(ElementType::I32, 4)).ok());
  fs::resize_file(path("cut.npy"), fs::file_size(path("cut.npy")) - 1);
  EXPECT_EQ(textOf("cut.npy"), "declares i32[4], but has 15 bytes of elements");
}

/// Labels are the tokens shifted by one, also across the ends of examples.
TEST(TextData, LabelsAreTheNextTokens) {
  Result<Dataset> data =
      Dataset::fromTokens(countUp<uint16_t>(ElementType::UI16, 12), 4);
  ASSERT_TRUE(data.ok()) << data.status().toString();
  // 12 tokens have 11 next ones, which fill two examples.
  EXPECT_EQ(data->size(), 2);
  EXPECT_TRUE(data->isText());
  Result<Batcher> batcher =
      Batcher::create(*data, {"tokens"}, {{ElementType::I64, {1, 4}}},
                      {ElementType::I32, {1, 4}}, {}, /*classes=*/9);
  ASSERT_TRUE(batcher.ok()) << batcher.status().toString();
  std::vector<int64_t> rows = {1};
  std::vector<Buffer> batch = *batcher->gather(rows);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(batch[0].as<int64_t>()[size_t(i)], 4 + i);
    EXPECT_EQ(batch[1].as<int32_t>()[size_t(i)], 5 + i);
  }
}

TEST(TextData, NeedsATokenAfterTheExample) {
  Buffer tokens = countUp<int32_t>(ElementType::I32, 4);
  EXPECT_EQ(Dataset::fromTokens(tokens, 3)->size(), 1);
  Result<Dataset> data = Dataset::fromTokens(tokens, 4);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().toString(),
            "tokens: are 4, but an example of 4 and the next token need 5");
  EXPECT_FALSE(Dataset::fromTokens(tokens, 0).ok());
  EXPECT_FALSE(
      Dataset::fromTokens(*Buffer::allocate({ElementType::F32, {9}}), 2).ok());
}

/// A wrong token is named by its place in the text, be it the first, which is
/// no label, or equal to what a loss would pass over.
TEST(TextData, SaysWhichTokenTheModelLacks) {
  auto fail = [](std::vector<int32_t> numbers, int64_t classes) {
    Dataset data = *Dataset::fromTokens(
        *Buffer::fromValues<int32_t>({ElementType::I32, {5}}, numbers), 2);
    Result<Batcher> made =
        Batcher::create(data, {"tokens"}, {{ElementType::I64, {1, 2}}},
                        {ElementType::I32, {1, 2}}, {}, classes, /*ignored=*/7);
    return made.ok() ? std::string("fits") : made.status().toString();
  };
  EXPECT_EQ(fail({0, 1, 2, 3, 4}, 5), "fits");
  EXPECT_EQ(fail({0, 1, 2, 3, 4}, 4),
            "data set: token 4 is 4, but the model has a vocabulary of 4, "
            "numbered from 0");
  EXPECT_NE(fail({9, 1, 2, 3, 4}, 5).find("token 0 is 9"), std::string::npos);
  EXPECT_NE(fail({0, -1, 2, 3, 4}, 5).find("token 1 is -1"), std::string::npos);
  EXPECT_NE(fail({0, 1, 7, 3, 4}, 5).find("token 2 is 7"), std::string::npos);
}

TEST_F(TokensTest, ReadsPartsFromFilesAndFolders) {
  write("one.bin", std::string(20, '\0'));
  EXPECT_TRUE(Dataset::holdsTokens(path("one.bin")));
  EXPECT_EQ(Dataset::read(path("one.bin"), "train", 3)->size(), 3);
  EXPECT_EQ(Dataset::read(path("one.bin"), "test", 3).status().code(),
            StatusCode::NotFound);

  EXPECT_FALSE(Dataset::holdsTokens(folder.string()));
  write("train.bin", std::string(20, '\0'));
  EXPECT_TRUE(Dataset::holdsTokens(folder.string()));
  EXPECT_EQ(Dataset::read(folder.string(), "test", 3).status().code(),
            StatusCode::NotFound);
  write("val.bin", std::string(10, '\0'));
  EXPECT_EQ(Dataset::read(folder.string(), "train", 2)->size(), 4);
  EXPECT_EQ(Dataset::read(folder.string(), "test", 2)->size(), 2);
  Result<Dataset> tooLong = Dataset::read(folder.string(), "test", 9);
  ASSERT_FALSE(tooLong.ok());
  EXPECT_EQ(
      tooLong.status().toString(),
      path("val.bin") +
          ": tokens: are 5, but an example of 9 and the next token need 10");
  // Arrays keep their previous folder.
  write("train.npz", "");
  EXPECT_FALSE(Dataset::holdsTokens(folder.string()));
}
