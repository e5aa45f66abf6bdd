//===- GgufConfigTests.cpp - configuration in GGUF metadata ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GgufConfig.h"

#include "GgufBytes.h"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>

using namespace mpc;
using namespace mpc::checkpoint;
using test::Bytes;

namespace {

/// A model of two layers, as fields that a test can change.
struct Model {
  explicit Model(std::string architecture = "llama")
      : architecture(std::move(architecture)) {
    for (const auto &[key, number] :
         std::map<std::string, uint32_t>{{"block_count", 2},
                                         {"context_length", 128},
                                         {"embedding_length", 64},
                                         {"feed_forward_length", 96},
                                         {"attention.head_count", 4},
                                         {"attention.head_count_kv", 2}})
      integer(key, number);
    real("attention.layer_norm_rms_epsilon", 1e-5f);
    tensor("token_embd.weight", {64, 10});
  }

  Model &integer(const std::string &key, uint32_t number) {
    values[architecture + "." + key] = [=](Bytes &file, llvm::StringRef key) {
      file.value(key, GgufType::UInt32).number(number);
    };
    return *this;
  }
  Model &real(const std::string &key, float number) {
    values[architecture + "." + key] = [=](Bytes &file, llvm::StringRef key) {
      file.value(key, GgufType::Float32).number(number);
    };
    return *this;
  }
  Model &text(const std::string &key, const std::string &text) {
    values[architecture + "." + key] = [=](Bytes &file, llvm::StringRef key) {
      file.value(key, GgufType::String).text(text);
    };
    return *this;
  }
  Model &integers(const std::string &key, const std::vector<uint32_t> &list) {
    values[architecture + "." + key] = [=](Bytes &file, llvm::StringRef key) {
      file.value(key, GgufType::Array).array(GgufType::UInt32, list.size());
      for (uint32_t number : list)
        file.number(number);
    };
    return *this;
  }
  Model &without(const std::string &key) {
    values.erase(architecture + "." + key);
    return *this;
  }
  Model &tensor(const std::string &name, std::vector<uint64_t> extents) {
    tensors[name] = std::move(extents);
    return *this;
  }

  /// The configuration; the file's numbers are 0, 1, ... of bytes.
  Result<ModelConfig> read() const {
    Bytes file;
    file.header(tensors.size(), values.size() + 1);
    file.value("general.architecture", GgufType::String).text(architecture);
    for (const auto &[key, write] : values)
      write(file, key);
    uint64_t offset = 0;
    for (const auto &[name, extents] : tensors) {
      file.tensor(name, extents, /*type=*/0, offset);
      uint64_t size = 4;
      for (uint64_t extent : extents)
        size *= extent;
      offset += (size + 31) / 32 * 32;
    }
    file.data(offset);
    Result<GgufFile> parsed = file.parse();
    EXPECT_TRUE(parsed.ok()) << parsed.status().toString();
    return readGgufConfig(*parsed, "m.gguf");
  }
  std::string failure() const {
    Result<ModelConfig> config = read();
    return config.ok() ? "accepted" : config.status().toString();
  }

  std::string architecture;
  std::map<std::string, std::function<void(Bytes &, llvm::StringRef)>> values;
  std::map<std::string, std::vector<uint64_t>> tensors;
};

TEST(GgufConfig, ReadsLlama) {
  Model model;
  model.integers("feed_forward_length", {96, 96}).integer("vocab_size", 10);
  Result<ModelConfig> config = model.read();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->width, 64);
  EXPECT_EQ(config->vocabulary, 10);
  EXPECT_EQ(config->positions, 128);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kvHeads, 2);
  EXPECT_EQ(config->headSize, 16);
  EXPECT_EQ(config->inner, 96);
  EXPECT_EQ(config->epsilon, double(1e-5f));
  EXPECT_EQ(config->attentionScale, 0.25);
  EXPECT_EQ(config->pairs, RopePairs::Adjacent);
  ASSERT_EQ(config->ropes.size(), 1u);
  EXPECT_EQ(config->ropes[0].rotary, 16);
  ASSERT_EQ(config->ropes[0].frequencies.size(), 8u);
  EXPECT_EQ(config->ropes[0].frequencies[0], 1);
  EXPECT_EQ(config->ropes[0].frequencies[4], 0.01f);
  EXPECT_TRUE(config->windows.empty());
  EXPECT_TRUE(config->isTied);
  EXPECT_FALSE(config->qkvBias);
  EXPECT_EQ(config->names.at(Role::Query), "blk.{}.attn_q");
  model.tensor("output.weight", {64, 10}).tensor("blk.0.attn_q.bias", {64});
  config = model.read();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_FALSE(config->isTied);
  EXPECT_TRUE(config->qkvBias);
}

TEST(GgufConfig, ScalesFrequencies) {
  Model model;
  model.text("rope.scaling.type", "linear").real("rope.scaling.factor", 4);
  Result<ModelConfig> config = model.read();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->ropes[0].frequencies[0], 0.25f);
  model.text("rope.scaling.type", "none");
  EXPECT_EQ(model.read()->ropes[0].frequencies[0], 1);
  model.text("rope.scaling.type", "other");
  EXPECT_EQ(model.failure(),
            "m.gguf: 'llama.rope.scaling.type' is 'other'; supported are "
            "none, linear, yarn and longrope");
  // Divisors of the frequencies; the first one's bytes are 0, 1, 2, 3.
  Model divided;
  divided.tensor("rope_freqs.weight", {8});
  config = divided.read();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_GT(config->ropes[0].frequencies[0], 1e30f);
  divided.tensor("rope_freqs.weight", {7});
  EXPECT_EQ(divided.failure(), "m.gguf: needs a tensor 'rope_freqs.weight' of "
                               "8 elements of type F32");
  // The divisors of sequences up to the original length.
  Model longer;
  longer.text("rope.scaling.type", "longrope");
  longer.integer("rope.scaling.original_context_length", 32);
  EXPECT_EQ(longer.failure(), "m.gguf: needs a tensor "
                              "'rope_factors_short.weight' of 8 elements of "
                              "type F32");
  longer.tensor("rope_factors_short.weight", {8});
  EXPECT_EQ(longer.read()->mostTokens, 32);
}

TEST(GgufConfig, ReadsWindows) {
  Model model("gemma3");
  model.integer("block_count", 7).integer("attention.sliding_window", 16);
  model.integer("attention.key_length", 24).real("rope.freq_base", 1e6f);
  model.integer("attention.value_length", 24);
  Result<ModelConfig> config = model.read();
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->windows, (std::vector<int64_t>{16, 16, 16, 16, 16, 0, 16}));
  EXPECT_EQ(config->ropeOfLayer, (std::vector<unsigned>{1, 1, 1, 1, 1, 0, 1}));
  ASSERT_EQ(config->ropes.size(), 2u);
  EXPECT_EQ(config->ropes[0].frequencies[6], 1e-3f);
  EXPECT_EQ(config->ropes[1].frequencies[6], 1e-2f);
  EXPECT_EQ(config->embeddingScale, 8);
  EXPECT_EQ(config->normOffset, 0);
  EXPECT_EQ(config->attentionScale, 1 / std::sqrt(24.0));
  model.integers("attention.sliding_window_pattern", {1, 0, 0, 0, 0, 0, 1});
  EXPECT_EQ(model.read()->windows,
            (std::vector<int64_t>{16, 0, 0, 0, 0, 0, 16}));
  model.integers("attention.sliding_window_pattern", {1, 0});
  EXPECT_EQ(model.failure(),
            "m.gguf: 'gemma3.attention.sliding_window_pattern' must have one "
            "value for each of the 7 layers");
  Model phi("phi3");
  phi.integer("attention.sliding_window", 16);
  EXPECT_EQ(phi.read()->windows, (std::vector<int64_t>{16, 16}));
  phi.integer("attention.sliding_window", 0);
  EXPECT_TRUE(phi.read()->windows.empty());
}

TEST(GgufConfig, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Model("mamba").failure(),
            "m.gguf: has the architecture 'mamba'; supported are gemma2, "
            "gemma3, gpt2, gptneox, llama, phi3, qwen2, qwen3");
  EXPECT_EQ(Model().real("logit_scale", 2).failure(),
            "m.gguf: has the value 'llama.logit_scale', which is not "
            "supported");
  EXPECT_EQ(Model().integer("expert_count", 8).failure(),
            "m.gguf: is a mixture of experts, which is not supported");
  EXPECT_EQ(Model().integer("expert_count", 0).failure(), "accepted");
  EXPECT_EQ(Model().without("block_count").failure(),
            "m.gguf: 'llama.block_count' is missing; it must be an integer "
            "from 1 to 16384");
  EXPECT_EQ(Model().integer("block_count", 1000000000).failure(),
            "m.gguf: 'llama.block_count' is 1000000000; it must be an integer "
            "from 1 to 16384");
  EXPECT_EQ(Model().text("block_count", "2").failure(),
            "m.gguf: 'llama.block_count' is no integer; it must be an integer "
            "from 1 to 16384");
  EXPECT_EQ(Model().integers("attention.head_count_kv", {2, 4}).failure(),
            "m.gguf: 'llama.attention.head_count_kv' differs between layers, "
            "which is not supported");
  EXPECT_EQ(Model().integer("attention.head_count_kv", 3).failure(),
            "m.gguf: has 4 heads for 3 heads of keys and values, which must "
            "divide them");
  EXPECT_EQ(Model().real("attention.layer_norm_rms_epsilon", 0).failure(),
            "m.gguf: has an epsilon of its norms that is not above zero");
  EXPECT_EQ(Model().real("rope.scaling.factor", 1e-40f).failure(),
            "m.gguf: has rotary frequencies that are not finite");
  EXPECT_EQ(Model().real("rope.freq_base", INFINITY).failure(),
            "m.gguf: 'llama.rope.freq_base' is no finite positive number");
  EXPECT_EQ(Model().tensor("token_embd.weight", {10}).failure(),
            "m.gguf: tensor 'token_embd.weight' must be a matrix with 1 to "
            "16777216 rows");
}

} // namespace
