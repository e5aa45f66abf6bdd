//===- CheckpointTests.cpp - tests of checkpoints -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/Checkpoint.h"

#include "TensorFile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

using namespace mpc;
using namespace mpc::training;
namespace fs = std::filesystem;

namespace {

class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() /
             ("mpc-checkpoint-" + std::to_string(::getpid()) + "-" +
              testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto &entry : fs::directory_iterator(folder))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

  fs::path folder;
};

Checkpoint sample(int64_t step) {
  std::vector<float> weights = {1, -2, 3.5f, float(step), 0, 1e-40f};
  std::vector<int64_t> count = {step};
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.tensors = {
      {"fc.weight",
       *Buffer::fromValues<float>({ElementType::F32, {2, 3}}, weights)},
      {"step", *Buffer::fromValues<int64_t>({ElementType::I64, {}}, count)},
      {"empty", *Buffer::allocate({ElementType::F32, {0, 4}})}};
  checkpoint.facts = {{"note", "a \"quoted\" \"sha256\":\"text\" \n"}};
  return checkpoint;
}

std::string bytesOf(const TensorFile &file) { return *encodeTensorFile(file); }

/// A file with that header and so many bytes of data, without a digest.
std::string withHeader(const std::string &header, size_t data) {
  std::string bytes(8, '\0');
  uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + std::string(data, 'x');
}

std::string reasonOf(const std::string &bytes, bool needsDigest = false) {
  Result<TensorFile> file = decodeTensorFile(bytes, "f", needsDigest);
  return file.ok() ? "read" : file.status().text();
}

} // namespace

//===----------------------------------------------------------------------===//
// The format
//===----------------------------------------------------------------------===//

TEST(TensorFileFormat, RoundTripsToTheBit) {
  Checkpoint checkpoint = sample(3);
  TensorFile file{checkpoint.tensors, checkpoint.facts};
  std::string bytes = bytesOf(file);
  EXPECT_EQ(bytes, bytesOf(file));
  Result<TensorFile> read = decodeTensorFile(bytes, "f", /*needsDigest=*/true);
  ASSERT_TRUE(read.ok()) << read.status().toString();
  EXPECT_EQ(read->metadata, checkpoint.facts);
  ASSERT_EQ(read->tensors.size(), 3u);
  for (const NamedTensor &tensor : read->tensors) {
    auto wanted = std::find_if(
        checkpoint.tensors.begin(), checkpoint.tensors.end(),
        [&](const NamedTensor &t) { return t.name == tensor.name; });
    ASSERT_NE(wanted, checkpoint.tensors.end());
    EXPECT_EQ(tensor.data.type(), wanted->data.type());
    EXPECT_TRUE(std::ranges::equal(tensor.data.as<uint8_t>(),
                                   wanted->data.as<uint8_t>()));
  }
}

TEST(TensorFileFormat, ReadsWhatOthersWrite) {
  std::string header =
      R"( {"b":{"dtype":"F32","shape":[],"data_offsets":[2,6]},)"
      R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  EXPECT_EQ(reasonOf(withHeader(header, 6)), "read");
  EXPECT_EQ(reasonOf(withHeader(header, 6), /*needsDigest=*/true),
            "has no digest (metadata sha256)");
}

TEST(TensorFileFormat, RefusesHostileBytes) {
  auto one = [](const std::string &entry, size_t data) {
    return reasonOf(withHeader("{\"t\":" + entry + "}", data));
  };
  EXPECT_NE(reasonOf("abc").find("too short"), std::string::npos);
  EXPECT_NE(reasonOf(std::string(16, '\xff')).find("declares a header"),
            std::string::npos);
  EXPECT_NE(reasonOf(withHeader("[1]", 0)).find("not a JSON object"),
            std::string::npos);
  EXPECT_NE(
      reasonOf(withHeader(std::string(200000, '['), 0)).find("nested deeper"),
      std::string::npos);
  EXPECT_NE(one("3", 0).find("lacks a dtype"), std::string::npos);
  EXPECT_NE(one(R"({"dtype":"F4","shape":[1],"data_offsets":[0,4]})", 4)
                .find("is not supported"),
            std::string::npos);
  for (const char *offsets : {"[0,3]", "[4,0]", "[0,8]", "[1,5]"})
    EXPECT_NE(one(std::string(R"({"dtype":"F32","shape":[1],"data_offsets":)") +
                      offsets + "}",
                  4)
                  .find("offsets"),
              std::string::npos)
        << offsets;
  EXPECT_NE(one(R"({"dtype":"F32","shape":[4611686018427387904,4],)"
                R"("data_offsets":[0,0]})",
                0)
                .find("offsets"),
            std::string::npos);
  EXPECT_NE(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,0]})", 0)
                .find("lacks"),
            std::string::npos);
  std::string t = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  std::string u = R"({"dtype":"U8","shape":[4],"data_offsets":[3,7]})";
  EXPECT_NE(reasonOf(withHeader("{\"t\":" + t + ",\"u\":" + u + "}", 7))
                .find("overlaps"),
            std::string::npos);
  EXPECT_NE(reasonOf(withHeader("{\"t\":" + t + ",\"t\":" + t + "}", 7))
                .find("a duplicate name"),
            std::string::npos);
}

TEST(TensorFileFormat, SeesEveryFlippedByte) {
  Checkpoint checkpoint = sample(1);
  std::string bytes = bytesOf({checkpoint.tensors, checkpoint.facts});
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = char(damaged[i] ^ 0x10);
    EXPECT_NE(reasonOf(damaged, /*needsDigest=*/true), "read") << i;
  }
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_NE(reasonOf(bytes.substr(0, size), /*needsDigest=*/true), "read");
}

TEST(TensorFileFormat, SurvivesRandomBytes) {
  std::mt19937 random(1);
  std::string bytes = withHeader(
      R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  for (int i = 0; i < 2000; ++i) {
    std::string mutant = bytes;
    for (int k = 0; k < 3; ++k)
      mutant[random() % mutant.size()] = char(random());
    (void)reasonOf(mutant);
  }
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, KeepsTheNewestAndTheOneBefore) {
  for (int64_t step : {100, 200, 300})
    ASSERT_TRUE(saveCheckpoint(folder.string(), sample(step)).ok());
  EXPECT_EQ(names(),
            (std::vector<std::string>{"step-000000000200.safetensors",
                                      "step-000000000300.safetensors"}));
  Result<FoundCheckpoint> found = loadCheckpoint(folder.string());
  ASSERT_TRUE(found.ok()) << found.status().toString();
  EXPECT_EQ(found->checkpoint.step, 300);
  EXPECT_EQ(found->checkpoint.facts, sample(300).facts);
  EXPECT_TRUE(found->passedOver.empty());
}

TEST_F(CheckpointTest, FallsBackFromATornFile) {
  for (int64_t step : {100, 200})
    ASSERT_TRUE(saveCheckpoint(folder.string(), sample(step)).ok());
  fs::path newest = folder / "step-000000000200.safetensors";
  fs::resize_file(newest, fs::file_size(newest) - 1);
  Result<FoundCheckpoint> found = loadCheckpoint(folder.string());
  ASSERT_TRUE(found.ok()) << found.status().toString();
  EXPECT_EQ(found->checkpoint.step, 100);
  ASSERT_EQ(found->passedOver.size(), 1u);
  EXPECT_NE(found->passedOver[0].text().find("is damaged"), std::string::npos);

  // The next one replaces the torn file, and the intact one stays until then.
  ASSERT_TRUE(saveCheckpoint(folder.string(), sample(150)).ok());
  EXPECT_EQ(names(),
            (std::vector<std::string>{"step-000000000100.safetensors",
                                      "step-000000000150.safetensors"}));
}

TEST_F(CheckpointTest, PassesOverWhatIsLargerThanTheModel) {
  for (int64_t step : {100, 200})
    ASSERT_TRUE(saveCheckpoint(folder.string(), sample(step)).ok());
  fs::resize_file(folder / "step-000000000200.safetensors", uint64_t(1) << 40);
  Result<FoundCheckpoint> found = loadCheckpoint(folder.string(), 1000);
  ASSERT_TRUE(found.ok()) << found.status().toString();
  EXPECT_EQ(found->checkpoint.step, 100);
  ASSERT_EQ(found->passedOver.size(), 1u);
  EXPECT_EQ(found->passedOver[0].text(),
            "has 1099511627776 bytes, but at most 16778216 are expected; name "
            "another file");
  // It may be a larger model's, whose folder no other run may have.
  fs::remove(folder / "step-000000000100.safetensors");
  EXPECT_EQ(loadCheckpoint(folder.string(), 1000).status().code(),
            StatusCode::ResourceExhausted);
}

TEST_F(CheckpointTest, RemovesWhatAStoppedWriterLeft) {
  ASSERT_TRUE(saveCheckpoint(folder.string(), sample(100)).ok());
  std::ofstream(folder / "step-000000000200.safetensors.a8Zx0q") << "half";
  std::ofstream(folder / "notes.txt") << "the user's own";
  EXPECT_EQ(loadCheckpoint(folder.string())->checkpoint.step, 100);
  ASSERT_TRUE(saveCheckpoint(folder.string(), sample(200)).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{
                         "notes.txt", "step-000000000100.safetensors",
                         "step-000000000200.safetensors"}));
}

TEST_F(CheckpointTest, SaysWhyThereIsNone) {
  Result<FoundCheckpoint> none = loadCheckpoint(folder.string());
  EXPECT_EQ(none.status().code(), StatusCode::NotFound);
  fs::create_directories(folder);
  // Tensors of another program are no checkpoint.
  Checkpoint foreign = sample(1);
  std::ofstream(folder / "step-000000000001.safetensors", std::ios::binary)
      << bytesOf({foreign.tensors, {}});
  none = loadCheckpoint(folder.string());
  ASSERT_FALSE(none.ok());
  ASSERT_EQ(none.status().notes().size(), 1u);
  EXPECT_NE(
      none.status().notes()[0].find("is not a checkpoint of a training run"),
      std::string::npos);
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder) << "a file";
  EXPECT_FALSE(saveCheckpoint((folder / "below").string(), sample(1)).ok());
}
