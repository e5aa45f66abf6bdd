//===- HuggingFaceTests.cpp - configurations of Hugging Face models -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HuggingFace.h"

#include "Families.h"
#include "ModelFolder.h"
#include "RopeScaling.h"

#include "mpc/Import/Checkpoint.h"

#include <cmath>
#include <set>

using namespace mpc;
using namespace mpc::checkpoint;

namespace {

/// A store without tensors.
class EmptyStore final : public WeightStore {
public:
  const StoredTensor *find(llvm::StringRef) const override { return nullptr; }
  std::vector<std::string> names() const override { return {}; }
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef) const override {
    return Status(StatusCode::NotFound, "", "is empty");
  }
};

/// A small Llama; `more` are further keys, or keys in another place.
std::string llama(const std::string &more = "") {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32,
             "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 48, "vocab_size": 97)" +
         (more.empty() ? "" : ", " + more) + "}";
}

Result<ModelConfig> read(const std::string &text) {
  return readHuggingFaceConfig(text, "config.json", EmptyStore());
}

std::string failure(const std::string &text) {
  Result<ModelConfig> config = read(text);
  return config.ok() ? "read" : config.status().toString();
}

void expectFailure(const std::string &text, const std::string &part) {
  std::string found = failure(text);
  EXPECT_NE(found.find(part), std::string::npos) << found;
}

} // namespace

TEST(HuggingFace, FillsDefaults) {
  Result<ModelConfig> config = read(llama(R"("eos_token_id": [2, 5])"));
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->headSize, 8);
  EXPECT_EQ(config->kvHeads, 4);
  EXPECT_EQ(config->attentionScale, 1 / std::sqrt(8.0));
  EXPECT_EQ(config->endIds, (std::vector<int64_t>{2, 5}));
  ASSERT_EQ(config->ropes.size(), 1u);
  EXPECT_EQ(config->ropes[0].rotary, 8);
  EXPECT_EQ(config->ropes[0].frequencies[0], 1.0f);
  EXPECT_EQ(config->names[Role::Query], "model.layers.{}.self_attn.q_proj");
}

TEST(HuggingFace, NamesEachArchitectureOnce) {
  std::set<std::string> names;
  for (const Family &family : families())
    for (const Architecture &architecture : family.architectures)
      EXPECT_TRUE(names.insert(architecture.name).second) << architecture.name;
  EXPECT_EQ(names.count("GPT2LMHeadModel"), 1u);
}

TEST(HuggingFace, ReadsHeadsOfEncoders) {
  Result<ModelConfig> config = read(
      R"({"architectures": ["ModernBertForSequenceClassification"],
          "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
          "intermediate_size": 48, "vocab_size": 97, "local_attention": 8,
          "classifier_pooling": "mean", "classifier_bias": true,
          "decoder_bias": false, "classifier_activation": "relu"})");
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->head, HeadKind::SequenceClassification);
  EXPECT_EQ(config->pooling, Pooling::Mean);
  EXPECT_EQ(config->headTransform, Activation::Relu);
  EXPECT_TRUE(config->headTransformBias && config->headBias);
  EXPECT_EQ(config->windows, (std::vector<int64_t>{0, 4, 4, 0}));
  EXPECT_EQ(config->ropeOfLayer, (std::vector<unsigned>{0, 1, 1, 0}));
}

TEST(HuggingFace, RefusesWrongConfigurations) {
  expectFailure("{", "is not a JSON object");
  expectFailure("{}", "has no key 'architectures'");
  expectFailure(R"({"architectures": "LlamaForCausalLM"})",
                "expected a list of strings");
  expectFailure(R"({"architectures": ["A"]})", "BertForMaskedLM");
  expectFailure(R"({"architectures": ["LlamaForCausalLM"]})",
                "key 'num_hidden_layers' is missing");
  expectFailure(llama(R"("vocab_size": 97)"), "with a duplicate name");
  for (const char *value : {"1e9", "-1", "0", "1048577", "18446744073709551615",
                            "\"4\"", "[4]", "true", "4.5"})
    expectFailure(llama(std::string("\"num_key_value_heads\": ") + value),
                  std::string("key 'num_key_value_heads' is ") +
                      (value == std::string("1e9") ? "1000000000.0" : value));
  expectFailure(llama(R"("rms_norm_eps": 1e999)"), "is not a JSON object");
  expectFailure(llama(R"("rms_norm_eps": -1e-6)"), "expected a number above");
  expectFailure(llama(R"("attention_bias": 1)"), "expected true or false");
  expectFailure(llama(R"("residual_multiplier": 2)"), "is not known");
  expectFailure(llama(R"("rope_scaling": 3)"), "is not an object");
  expectFailure(llama(R"("rope_scaling": {"type": "linear"})"),
                "key 'rope_scaling.factor' is missing");
  expectFailure(llama(R"("rope_scaling": {"type": "default", "beta": 1})"),
                "key 'rope_scaling.beta' with the value 1 is not known");
  expectFailure(llama(R"("head_dim": 7)"), "rotated elements of a head of 7");
  expectFailure(llama(R"("eos_token_id": "x")"), "key 'eos_token_id'");
}

TEST(HuggingFace, ReadsScaledFrequencies) {
  RopeOptions options;
  options.rotary = 8;
  options.positions = options.original = 64;
  options.factor = 4;
  Rope plain = makeRope(options);
  options.scaling = RopeScaling::Linear;
  Rope linear = makeRope(options);
  options.scaling = RopeScaling::Yarn;
  Rope yarn = makeRope(options);
  options.scaling = RopeScaling::Llama3;
  Rope llama3 = makeRope(options);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(linear.frequencies[i], plain.frequencies[i] / 4);
    for (const Rope &rope : {yarn, llama3}) {
      EXPECT_LE(rope.frequencies[i], plain.frequencies[i]);
      EXPECT_GE(rope.frequencies[i], plain.frequencies[i] / 4);
    }
  }
  // The fastest pair turns many times, the slowest less than once.
  EXPECT_EQ(llama3.frequencies[0], plain.frequencies[0]);
  EXPECT_EQ(llama3.frequencies[3], plain.frequencies[3] / 4);
  EXPECT_NEAR(yarn.factor, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(mostTokensOf(options), 0);
  options.scaling = RopeScaling::Dynamic;
  EXPECT_EQ(makeRope(options), plain);
  EXPECT_EQ(mostTokensOf(options), 64);
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

namespace {

class CheckpointFolder : public TemporaryFolder {
protected:
  void expectOpenFailure(const std::string &part) {
    Result<std::shared_ptr<const Checkpoint>> model =
        Checkpoint::open(folder.string());
    std::string found = model.ok() ? "opened" : model.status().toString();
    EXPECT_NE(found.find(part), std::string::npos) << found;
  }
};

} // namespace

TEST_F(CheckpointFolder, RefusesIncompleteFolders) {
  EXPECT_TRUE(Checkpoint::isCheckpoint(folder.string()));
  expectOpenFailure("is a folder without config.json");
  write("config.json", llama());
  expectOpenFailure("has neither model.safetensors nor");
  write("model.safetensors",
        safetensors("{" + entry("x", "F32", "[1]", 0, 4) + "}", "abcd"));
  expectOpenFailure("tensor 'model.embed_tokens.weight' is missing; the "
                    "configuration needs it with the shape [97,32]");
  write("model.safetensors",
        safetensors("{" +
                        entry("model.embed_tokens.weight", "I8", "[97,32]", 0,
                              97 * 32) +
                        "}",
                    std::string(97 * 32, 'x')));
  expectOpenFailure("has the type i8, but a weight is a float");
  write("generation_config.json", R"({"eos_token_id": -1})");
  expectOpenFailure("generation_config.json: key 'eos_token_id'");
}
