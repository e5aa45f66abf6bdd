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

/// A store of vectors of two bytes.
class PairStore final : public WeightStore {
public:
  PairStore(std::map<std::string, std::string> pairs = {})
      : pairs(std::move(pairs)) {}

  const StoredTensor *find(llvm::StringRef name) const override {
    static const StoredTensor tensor{{ElementType::UI8, {2}}, "pair"};
    return pairs.contains(name.str()) ? &tensor : nullptr;
  }
  std::vector<std::string> names() const override { return {}; }
  Result<std::shared_ptr<const std::byte>>
  read(llvm::StringRef name) const override {
    return std::shared_ptr<const std::byte>(
        reinterpret_cast<const std::byte *>(pairs.at(name.str()).data()),
        [](const std::byte *) {});
  }

private:
  std::map<std::string, std::string> pairs;
};

/// A small Llama; `more` are further keys, or keys in another place.
std::string llama(const std::string &more = "") {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32,
             "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 48, "vocab_size": 97)" +
         (more.empty() ? "" : ", " + more) + "}";
}

/// A small model of another class.
std::string model(const std::string &name, const std::string &more = "") {
  std::string text = llama(more);
  return text.replace(text.find("LlamaForCausalLM"), 16, name);
}

Result<ModelConfig> read(const std::string &text, const PairStore &store = {}) {
  return readHuggingFaceConfig(text, "config.json", store);
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
  for (const char *key : {"rms_norm_eps", "rope_theta"})
    for (const char *value : {"1e300", "1e-300"})
      expectFailure(llama("\"" + std::string(key) + "\": " + value),
                    "key '" + std::string(key) + "' is " +
                        (value == std::string("1e300") ? "1e+300" : value));
  expectFailure(
      llama(R"("rope_scaling": {"type": "linear", "factor": 1e-40})"),
      "key 'rope_scaling' gives rotary frequencies that are not finite");
  expectFailure(llama(R"("partial_rotary_factor": 0.5)"),
                "key 'partial_rotary_factor' is 0.5, but only 1 is supported");
  expectFailure(llama(R"("rope_parameters": {"partial_rotary_factor": 0.5})"),
                "but only 1 is supported");
  expectFailure(llama(R"("rope_parameters": {"rope_theta": 1e4},
                         "rope_scaling": {"type": "linear", "factor": 2})"),
                "key 'rope_scaling' differs from 'rope_parameters'");
  expectFailure(model("Gemma3ForCausalLM", R"("attn_logit_softcapping": 50)"),
                "key 'attn_logit_softcapping' is 50, but only null");
  std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  for (const char *key : {"hidden_size", "architectures", "x", "eos_token_id"})
    expectFailure("{\"" + std::string(key) + "\": " + deep + "}",
                  "has a configuration that is nested deeper than 64 levels");
  EXPECT_FALSE(readEndIds("{\"eos_token_id\": " + deep + "}", "x").ok());
  expectFailure(llama(R"("head_dim": 7)"), "rotated elements of a head of 7");
  expectFailure(llama(R"("eos_token_id": "x")"), "key 'eos_token_id'");
}

TEST(HuggingFace, AcceptsEqualRopes) {
  std::string rope = R"({"rope_type": "linear", "factor": 2})";
  Result<ModelConfig> config =
      read(llama(R"("partial_rotary_factor": 1.0, "rope_scaling": )" + rope +
                 R"(, "rope_parameters": )" + rope));
  ASSERT_TRUE(config.ok()) << config.status().toString();
  EXPECT_EQ(config->ropes[0].frequencies[0], 0.5f);
}

// A missing key stands for the class's default, null for none.
TEST(HuggingFace, ReadsDefaultsOfClasses) {
  auto readClass = [](const std::string &name, const std::string &more = "") {
    Result<ModelConfig> config = read(model(name, more));
    EXPECT_TRUE(config.ok()) << config.status().toString();
    return config.ok() ? *config : ModelConfig();
  };
  ModelConfig gemma = readClass("Gemma2ForCausalLM");
  EXPECT_EQ(gemma.attentionCap, 50);
  EXPECT_EQ(gemma.logitCap, 30);
  EXPECT_EQ(gemma.windows, (std::vector<int64_t>{4096, 0}));
  gemma = readClass("Gemma2ForCausalLM", R"("attn_logit_softcapping": null,
                                       "final_logit_softcapping": null)");
  EXPECT_EQ(gemma.attentionCap, 0);
  EXPECT_EQ(gemma.logitCap, 0);
  EXPECT_EQ(readClass("Gemma3ForCausalLM").logitCap, 0);
  EXPECT_EQ(readClass("MistralForCausalLM").windows,
            (std::vector<int64_t>{4096, 4096}));
  EXPECT_TRUE(readClass("MistralForCausalLM", R"("sliding_window": null)")
                  .windows.empty());
}

TEST(HuggingFace, TiesEqualTensorsOnly) {
  auto isTied = [](const PairStore &store) {
    Result<ModelConfig> config =
        read(llama(R"("tie_word_embeddings": true)"), store);
    EXPECT_TRUE(config.ok()) << config.status().toString();
    return config->isTied;
  };
  std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  EXPECT_TRUE(isTied({{{embedding, "ab"}}}));
  EXPECT_TRUE(isTied({{{embedding, "ab"}, {head, "ab"}}}));
  EXPECT_FALSE(isTied({{{embedding, "ab"}, {head, "ac"}}}));
}

TEST(HuggingFace, PrefersTheBiasOfTheHead) {
  auto bias = [](const char *isTied, const PairStore &store) {
    Result<ModelConfig> config =
        read(model("BertForMaskedLM",
                   "\"tie_word_embeddings\": " + std::string(isTied)),
             store);
    EXPECT_TRUE(config.ok()) << config.status().toString();
    return config->names[Role::HeadBias];
  };
  std::string outer = "cls.predictions.bias",
              own = "cls.predictions.decoder.bias";
  EXPECT_EQ(bias("true", {{{outer, "ab"}}}), outer);
  EXPECT_EQ(bias("true", {{{outer, "ab"}, {own, "cd"}}}), own);
  EXPECT_EQ(bias("false", {{{outer, "ab"}}}), own);
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
