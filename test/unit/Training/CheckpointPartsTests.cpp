//===- CheckpointPartsTests.cpp - checkpoints of several ranks ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointShards.h"

#include "../TemporaryModel.h"

#include <algorithm>
#include <numeric>

using namespace mpc;
using namespace mpc::training;
namespace fs = std::filesystem;

namespace {

/// Seven numbers in three shards, one in three, and a tensor that is whole.
class CheckpointPartsTest : public TemporaryFolder {
protected:
  static std::vector<float> values(int64_t step) {
    std::vector<float> all(7);
    std::iota(all.begin(), all.end(), float(step));
    return all;
  }

  static std::vector<NamedTensor> piecesOf(int64_t step, int64_t rank) {
    std::vector<float> row = values(step), one = {float(-step), 0, 0};
    row.resize(9); // zeros after the last
    return {{"w", *Buffer::fromValues<float>(
                      {ElementType::F32, {3}},
                      {row.begin() + 3 * rank, row.begin() + 3 * rank + 3})},
            {"scalar", *Buffer::fromValues<float>(
                           {ElementType::F32, {1}},
                           std::vector<float>{one[size_t(rank)]})}};
  }

  /// All that ranks do for a checkpoint but the last file.
  Checkpoint saveParts(int64_t step) {
    Checkpoint checkpoint;
    checkpoint.step = step;
    checkpoint.tensors = {
        {"step", *Buffer::fromValues<int64_t>({ElementType::I64, {}},
                                              std::vector<int64_t>{step})}};
    checkpoint.facts = {{"note", "text"}};
    checkpoint.pieces = {{"w", {7, 1}}, {"scalar", {}}};
    for (int64_t rank = 0; rank < 3; ++rank)
      checkpoint.parts.push_back(*saveCheckpointPart(
          folder.string(), step, rank, 3, piecesOf(step, rank)));
    return checkpoint;
  }
  void save(int64_t step) {
    ASSERT_TRUE(saveCheckpoint(folder.string(), saveParts(step)).ok());
  }

  /// The step that is found, with all of its expected contents; -1 without one.
  int64_t found() {
    Result<FoundCheckpoint> found = loadCheckpoint(folder.string());
    reasons.clear();
    if (!found.ok()) {
      for (const std::string &note : found.status().notes())
        reasons.push_back(note);
      return -1;
    }
    for (const Status &status : found->passedOver)
      reasons.push_back(status.toString());
    const Checkpoint &checkpoint = found->checkpoint;
    EXPECT_TRUE(checkpoint.parts.empty() && checkpoint.pieces.empty());
    EXPECT_EQ(checkpoint.facts.size(), 1u);
    EXPECT_EQ(checkpoint.tensors.size(), 3u);
    for (const NamedTensor &tensor : checkpoint.tensors) {
      if (tensor.name == "w") {
        EXPECT_EQ(tensor.data.type(), (TensorType{ElementType::F32, {7, 1}}));
        EXPECT_TRUE(std::ranges::equal(tensor.data.as<float>(),
                                       values(checkpoint.step)));
      }
      if (tensor.name == "scalar") {
        EXPECT_EQ(tensor.data.type(), (TensorType{ElementType::F32, {}}));
        EXPECT_EQ(tensor.data.as<float>()[0], float(-checkpoint.step));
      }
    }
    return checkpoint.step;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto &entry : fs::directory_iterator(folder))
      all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  }

  std::vector<std::string> reasons;
};

} // namespace

TEST_F(CheckpointPartsTest, ShardsAreMergedIntoTensors) {
  save(4);
  EXPECT_EQ(found(), 4);
  EXPECT_EQ(names(), (std::vector<std::string>{
                         "step-000000000004.part-0-of-3.safetensors",
                         "step-000000000004.part-1-of-3.safetensors",
                         "step-000000000004.part-2-of-3.safetensors",
                         "step-000000000004.safetensors"}));
}

TEST_F(CheckpointPartsTest, RanksThatEndAtAnyMomentLeaveTheLastOne) {
  save(4);
  // Killed between the parts.
  for (int64_t rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(
        saveCheckpointPart(folder.string(), 8, rank, 3, piecesOf(8, rank))
            .ok());
  EXPECT_EQ(found(), 4);
  // After the parts and before the file that names them.
  Checkpoint next = saveParts(8);
  EXPECT_EQ(found(), 4);
  // While a part was written.
  std::ofstream(
      (folder / "step-000000000008.part-1-of-3.safetensors.Ab3dE6").string())
      << "half";
  EXPECT_EQ(found(), 4);
  ASSERT_TRUE(saveCheckpoint(folder.string(), next).ok());
  EXPECT_EQ(found(), 8);
  EXPECT_EQ(names().size(), 8u);
}

TEST_F(CheckpointPartsTest, ShardsAreRemovedWithTheirCheckpoint) {
  // Parts of two ranks that were killed, at a step that three ranks repeat.
  for (int64_t rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(saveCheckpointPart(folder.string(), 12, rank, 2, {}).ok());
  for (int64_t step : {4, 8, 12})
    save(step);
  EXPECT_EQ(found(), 12);
  std::vector<std::string> left = names();
  EXPECT_EQ(left.size(), 8u);
  for (const std::string &name : left) {
    EXPECT_EQ(name.find("step-000000000004"), std::string::npos) << name;
    EXPECT_EQ(name.find("of-2"), std::string::npos) << name;
  }
}

TEST_F(CheckpointPartsTest, DamagedShardsAreReportedAndSkipped) {
  save(4);
  save(8);
  fs::path part = folder / "step-000000000008.part-1-of-3.safetensors";
  std::string bytes;
  {
    std::ifstream in(part, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto write = [&](const std::string &text) {
    std::ofstream(part, std::ios::binary) << text;
  };
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::string damaged = bytes;
    damaged[at] ^= 0x10;
    write(damaged);
    EXPECT_EQ(found(), 4) << at;
    ASSERT_EQ(reasons.size(), 1u);
    EXPECT_EQ(reasons[0], part.string() +
                              ": is damaged or belongs to another checkpoint: "
                              "its digest differs from the one in "
                              "step-000000000008.safetensors");
  }
  write(bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(found(), 4);
  // The part of another rank, which is complete.
  fs::copy_file(folder / "step-000000000008.part-2-of-3.safetensors", part,
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(found(), 4);
  fs::remove(part);
  EXPECT_EQ(found(), 4);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("part-1-of-3"), std::string::npos) << reasons[0];
  write(bytes);
  EXPECT_EQ(found(), 8);
}

TEST_F(CheckpointPartsTest, MismatchedShardsAreRefused) {
  auto reasonOf = [&](auto change) {
    Checkpoint checkpoint = saveParts(4);
    change(checkpoint);
    EXPECT_TRUE(saveCheckpoint(folder.string(), checkpoint).ok());
    EXPECT_EQ(found(), -1);
    return reasons.empty() ? std::string() : reasons[0];
  };
  EXPECT_NE(reasonOf([](Checkpoint &c) {
              c.pieces["w"] = {17};
            }).find("which is not one of 3 of f32[17]"),
            std::string::npos);
  EXPECT_NE(reasonOf([](Checkpoint &c) {
              c.pieces.erase("w");
            }).find("has 2 shards, but the checkpoint has 1"),
            std::string::npos);
  EXPECT_NE(reasonOf([](Checkpoint &c) {
              c.pieces.erase("w");
              c.pieces["v"] = {7};
            }).find("has a shard of 'w'"),
            std::string::npos);
  EXPECT_NE(reasonOf([](Checkpoint &c) {
              c.parts.clear();
              c.facts["mpc.parts"] = "[1]";
            }).find("does not describe the shards of its ranks"),
            std::string::npos);
  EXPECT_NE(reasonOf([](Checkpoint &c) {
              c.pieces["w"] = {int64_t(1) << 40, int64_t(1) << 40};
            }).find("is too large"),
            std::string::npos);
}
