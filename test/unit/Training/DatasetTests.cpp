//===- DatasetTests.cpp - tests of data sets and batches ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/Dataset.h"

#include "../TemporaryModel.h"
#include "BatchStream.h"
#include "IdxFile.h"

#include "mpc/Support/Npy.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

using namespace mpc;
using namespace mpc::training;
namespace fs = std::filesystem;

namespace {

class DatasetTest : public TemporaryFolder {
protected:
  void writeGzip(const std::string &name, const std::string &bytes) {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), unsigned(bytes.size()));
    gzclose(file);
  }
};

/// An idx file of bytes.
std::string idxFile(const std::vector<uint32_t> &shape,
                    const std::string &elements, char code = 0x08) {
  std::string file{'\0', '\0', code, char(shape.size())};
  for (uint32_t extent : shape)
    for (int shift : {24, 16, 8, 0})
      file += char(extent >> shift);
  return file + elements;
}

std::string countUp(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i)
    text[i] = char(i);
  return text;
}

template <typename T> Buffer values(TensorType type, std::vector<T> numbers) {
  return *Buffer::fromValues<T>(type, numbers);
}

} // namespace

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TEST_F(DatasetTest, ReadsIdxPlainAndGzipped) {
  std::string file = idxFile({2, 2, 3}, countUp(12));
  write("plain", file);
  writeGzip("packed", file);
  for (const char *name : {"plain", "packed"}) {
    Result<Buffer> data = readIdx(path(name));
    ASSERT_TRUE(data.ok()) << data.status().toString();
    EXPECT_EQ(data->type(), (TensorType{ElementType::UI8, {2, 2, 3}}));
    EXPECT_EQ(data->as<uint8_t>()[11], 11);
  }
}

TEST_F(DatasetTest, TurnsBigEndianElements) {
  write("ints", idxFile({2}, std::string("\0\0\1\2\xff\xff\xff\xfe", 8), 0x0c));
  Result<Buffer> data = readIdx(path("ints"));
  ASSERT_TRUE(data.ok()) << data.status().toString();
  EXPECT_EQ(data->as<int32_t>()[0], 258);
  EXPECT_EQ(data->as<int32_t>()[1], -2);
}

TEST_F(DatasetTest, RefusesBrokenIdxFiles) {
  std::string good = idxFile({2, 3}, countUp(6));
  auto textOf = [&](const std::string &bytes) {
    write("file", bytes);
    Result<Buffer> data = readIdx(path("file"));
    return data.ok() ? std::string("read") : data.status().text();
  };
  EXPECT_EQ(textOf(good), "read");
  EXPECT_NE(textOf(good.substr(0, 3)).find("ends inside"), std::string::npos);
  EXPECT_NE(textOf(good.substr(0, 9)).find("ends inside"), std::string::npos);
  EXPECT_NE(textOf(good.substr(0, 14)).find("ends before"), std::string::npos);
  EXPECT_NE(textOf(good + "x").find("has data after"), std::string::npos);
  EXPECT_NE(textOf("\1" + good.substr(1)).find("is not an idx file"),
            std::string::npos);
  EXPECT_NE(textOf(idxFile({2}, "ab", 0x07)).find("is not an idx file"),
            std::string::npos);
  EXPECT_NE(textOf(idxFile({}, "")).find("0 dimensions"), std::string::npos);
  EXPECT_NE(textOf(idxFile({0xffffffff, 0xffffffff, 0xffffffff}, ""))
                .find("cannot contain"),
            std::string::npos);
}

TEST_F(DatasetTest, SeesDamagedGzip) {
  writeGzip("file", idxFile({4096}, countUp(4096)));
  std::fstream file(path("file"), std::ios::in | std::ios::out);
  file.seekp(-8, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_FALSE(readIdx(path("file")).ok());
}

TEST_F(DatasetTest, ReadsFoldersOfIdxFiles) {
  write("train-images-idx3-ubyte", idxFile({4, 2, 2}, countUp(16)));
  writeGzip("train-labels-idx1-ubyte.gz", idxFile({4}, countUp(4)));
  Result<Dataset> data = Dataset::read(folder.string(), "train");
  ASSERT_TRUE(data.ok()) << data.status().toString();
  EXPECT_EQ(data->size(), 4);
  EXPECT_EQ(data->unitRange().scale, 1.0 / 255);
  Result<Dataset> test = Dataset::read(folder.string(), "test");
  ASSERT_FALSE(test.ok());
  EXPECT_EQ(test.status().code(), StatusCode::NotFound);
}

TEST_F(DatasetTest, ReadsArrays) {
  TensorType x{ElementType::F32, {2, 3}}, y{ElementType::I64, {2}};
  Buffer inputs = values<float>(x, {1, 2, 3, 4, 5, 6}),
         labels = values<int64_t>(y, {7, 8});
  ASSERT_TRUE(writeNpz(path("one.npz"),
                       {{"x_train", inputs, ""}, {"y_train", labels, ""}})
                  .ok());
  Result<Dataset> one = Dataset::read(path("one.npz"), "train");
  ASSERT_TRUE(one.ok()) << one.status().toString();
  EXPECT_EQ(one->size(), 2);
  EXPECT_EQ(one->unitRange().scale, 1);
  EXPECT_EQ(Dataset::read(path("one.npz"), "test").status().code(),
            StatusCode::NotFound);

  ASSERT_TRUE(writeNpz(path("train.npz"),
                       {{"image", inputs, ""}, {"label", labels, ""}})
                  .ok());
  Result<Dataset> named = Dataset::read(folder.string(), "train");
  ASSERT_TRUE(named.ok()) << named.status().toString();
  EXPECT_EQ(named->inputs()[0].name, "image");
}

TEST(DatasetValues, CountsMustAgree) {
  Buffer three = values<float>({ElementType::F32, {3, 1}}, {1, 2, 3}),
         two = values<int32_t>({ElementType::I32, {2}}, {0, 1});
  Result<Dataset> data = Dataset::fromArrays({{"x", three}}, two);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().where(), "input 'x'");
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

TEST(EpochOrder, IsAPermutationOfSeedAndEpoch) {
  std::vector<int64_t> first = epochOrder(1000, 5, 0);
  std::vector<int64_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(sorted[size_t(i)], i);
  EXPECT_EQ(first, epochOrder(1000, 5, 0));
  EXPECT_NE(first, epochOrder(1000, 5, 1));
  EXPECT_NE(first, epochOrder(1000, 6, 0));
}

/// Scripts that train elsewhere in the same order compute this themselves.
TEST(EpochOrder, IsAsDocumented) {
  auto mix = [](uint64_t v) {
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9;
    v = (v ^ (v >> 27)) * 0x94d049bb133111eb;
    return v ^ (v >> 31);
  };
  constexpr uint64_t step = 0x9e3779b97f4a7c15;
  std::vector<int64_t> order = epochOrder(50, 3, 2);
  uint64_t before = 0;
  for (int64_t i : order) {
    uint64_t key = mix(mix(3 + 2 * step) + uint64_t(i) * step);
    EXPECT_LE(before, key);
    before = key;
  }
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//

namespace {

Dataset bytesWithLabels() {
  std::vector<uint8_t> pixels(12);
  std::iota(pixels.begin(), pixels.end(), uint8_t(0));
  pixels[11] = 255;
  return *Dataset::fromArrays(
      {{"", values<uint8_t>({ElementType::UI8, {3, 2, 2}}, pixels)}},
      values<uint8_t>({ElementType::UI8, {3}}, {2, 0, 1}));
}

} // namespace

TEST(BatcherValues, NormalisesAndReshapes) {
  Dataset data = bytesWithLabels();
  Normalization half = data.unitRange();
  half.mean = 0.5;
  half.deviation = 0.5;
  Result<Batcher> batcher =
      Batcher::create(data, {"image"}, {{ElementType::F32, {2, 1, 4}}},
                      {ElementType::I32, {2}}, half, /*classes=*/3);
  ASSERT_TRUE(batcher.ok()) << batcher.status().toString();
  std::vector<int64_t> rows = {2, 0};
  Result<std::vector<Buffer>> batch = batcher->gather(rows);
  ASSERT_TRUE(batch.ok()) << batch.status().toString();
  EXPECT_EQ((*batch)[0].as<float>()[3], 1.0f);
  EXPECT_EQ((*batch)[0].as<float>()[4], -1.0f);
  EXPECT_EQ((*batch)[1].as<int32_t>()[0], 1);
  EXPECT_EQ((*batch)[1].as<int32_t>()[1], 2);
}

/// The result of float32 division in other programs.
TEST(BatcherValues, BytesBecomeWhatDivisionGives) {
  std::vector<uint8_t> pixels(256);
  std::iota(pixels.begin(), pixels.end(), uint8_t(0));
  Dataset data = *Dataset::fromArrays(
      {{"", values<uint8_t>({ElementType::UI8, {1, 256}}, pixels)}},
      values<uint8_t>({ElementType::UI8, {1}}, {0}));
  Result<Batcher> batcher =
      Batcher::create(data, {"x"}, {{ElementType::F32, {1, 256}}},
                      {ElementType::I32, {1}}, data.unitRange());
  ASSERT_TRUE(batcher.ok());
  std::vector<int64_t> rows = {0};
  std::vector<Buffer> batch = *batcher->gather(rows);
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(batch[0].as<float>()[size_t(i)], float(i) / 255.0f) << i;
}

TEST(BatcherValues, SaysWhatDoesNotFit) {
  Dataset data = bytesWithLabels();
  auto fail = [&](TensorType input, TensorType label, int64_t classes) {
    Result<Batcher> made =
        Batcher::create(data, {"x"}, {input}, label, {}, classes);
    return made.ok() ? std::string("fits") : made.status().toString();
  };
  TensorType input{ElementType::F32, {1, 4}}, label{ElementType::I32, {1}};
  EXPECT_EQ(fail(input, label, 3), "fits");
  EXPECT_EQ(fail(input, label, 2),
            "labels: example 0 has the label 2, but the model has 2 classes, "
            "numbered from 0");
  EXPECT_EQ(fail({ElementType::F32, {1, 5}}, label, 3),
            "data set: has examples of ui8[3,2,2], but input 'x' takes batches "
            "of f32[1,5]");
  EXPECT_EQ(fail({ElementType::F16, {1, 4}}, label, 3),
            "data set: is ui8, but input 'x' takes f16");
  EXPECT_EQ(fail(input, {ElementType::I32, {2}}, 3),
            "model: has batches of i32[2] and of f32[1,4], whose first extents "
            "differ");
}

TEST(BatchStreamValues, StartsAnywhereWithTheSameBatches) {
  std::vector<float> numbers(10);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Dataset data = *Dataset::fromArrays(
      {{"", values<float>({ElementType::F32, {10, 1}}, numbers)}},
      values<int32_t>({ElementType::I32, {10}}, std::vector<int32_t>(10, 0)));
  Batcher batcher = *Batcher::create(data, {"x"}, {{ElementType::F32, {3, 1}}},
                                     {ElementType::I32, {3}}, {});
  auto take = [&](int64_t epoch, int64_t batch, int count) {
    BatchStream stream(batcher, {.seed = 1, .perEpoch = 3}, epoch, batch);
    std::vector<float> seen;
    for (int i = 0; i < count; ++i) {
      Result<BatchStream::Batch> next = stream.next();
      EXPECT_TRUE(next.ok());
      for (float value : next->arrays[0].as<float>())
        seen.push_back(value);
    }
    return seen;
  };
  std::vector<float> all = take(0, 0, 6), later = take(1, 1, 2);
  EXPECT_TRUE(std::equal(later.begin(), later.end(), all.begin() + 12));
  // The first epoch's nine examples differ from each other.
  std::sort(all.begin(), all.begin() + 9);
  EXPECT_EQ(std::unique(all.begin(), all.begin() + 9), all.begin() + 9);
}
