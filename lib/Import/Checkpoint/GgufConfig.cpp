//===- GgufConfig.cpp - model configuration in GGUF metadata --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and tensor names are those of docs/gguf.md and of the PyPI package gguf.
// Converters bake some of a family's forms into the weights: Gemma's norms
// contain their offset of one, GPT-2's matrices are [out, in], GPT-NeoX's fused
// projection is stacked, and rows of Llama's queries and keys are permuted such
// that adjacent elements are rotated together.
//
//===----------------------------------------------------------------------===//

#include "GgufConfig.h"

#include "RopeScaling.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

namespace {

/// Forms of an architecture that its metadata does not contain.
struct GgufFamily {
  llvm::StringLiteral name;
  NormKind norm = NormKind::Rms;
  NormPlace place = NormPlace::Before;
  QkvForm qkv = QkvForm::Separate;
  RopePairs pairs = RopePairs::Halves;
  bool isGated = true, fusesGateUp = false;
  Activation activation = Activation::Silu;
  bool qkNorm = false, hasPositionTable = false;
  /// Token embeddings are multiplied by the root of the width.
  bool scalesEmbedding = false;
  /// Every n-th layer attends to all tokens, the others to a window; 0: all
  /// layers have the window, if there is one.
  int64_t windowPeriod = 0;
  /// Base of the rotary frequencies in layers with a window; 0: as in others.
  double windowBase = 0;
  /// Soft caps of scores and logits unless the metadata has them.
  double attentionCap = 0, logitCap = 0;
  /// Number of layers of the model whose scores are divided by the root of
  /// width / heads instead of the head size.
  int64_t layersScaledByWidth = 0;
};

constexpr GgufFamily kGgufFamilies[] = {
    {.name = "gemma2",
     .place = NormPlace::Both,
     .activation = Activation::GeluTanh,
     .scalesEmbedding = true,
     .windowPeriod = 2,
     .attentionCap = 50,
     .logitCap = 30,
     .layersScaledByWidth = 46},
    {.name = "gemma3",
     .place = NormPlace::Both,
     .activation = Activation::GeluTanh,
     .qkNorm = true,
     .scalesEmbedding = true,
     .windowPeriod = 6,
     .windowBase = 10000,
     .layersScaledByWidth = 62},
    {.name = "gpt2",
     .norm = NormKind::Layer,
     .qkv = QkvForm::Stacked,
     .isGated = false,
     .activation = Activation::GeluTanh,
     .hasPositionTable = true},
    {.name = "gptneox",
     .norm = NormKind::Layer,
     .qkv = QkvForm::Stacked,
     .isGated = false,
     .activation = Activation::Gelu},
    {.name = "llama", .pairs = RopePairs::Adjacent},
    {.name = "phi3", .qkv = QkvForm::Stacked, .fusesGateUp = true},
    {.name = "qwen2"},
    {.name = "qwen3", .qkNorm = true},
};

/// Metadata without effect on logits: facts about the file and its tokens.
constexpr llvm::StringLiteral kIrrelevant[] = {
    "attention.causal_default",
    "rope.scaling.finetuned",
    "vocab_size",
    "tensor_data_layout",
};

/// Upper bounds, such that no product of three numbers overflows.
constexpr int64_t kMostLayers = 1 << 14, kMostWidth = 1 << 20,
                  kMostVocabulary = 1 << 24, kMostPositions = 1 << 28,
                  kMostHeadSize = 1 << 12;

/// Reads the metadata of one architecture.
class GgufConfigReader {
public:
  GgufConfigReader(const GgufFile &file, const std::string &where)
      : file(file), where(where) {}

  Result<ModelConfig> read();

private:
  Status bad(const llvm::Twine &text) const {
    return Status(StatusCode::InvalidArgument, where, text.str());
  }
  /// Records the first failure.
  void fail(const llvm::Twine &text) {
    if (failure.ok())
      failure = bad(text);
  }

  /// Returns the value of the architecture's key `key`; null if it is absent.
  const GgufValue *find(StringRef key);
  bool has(StringRef tensor) const {
    return file.tensors.find(std::string_view(tensor)) != file.tensors.end();
  }
  /// Each returns `missing` if the key is absent; without it that is a failure.
  int64_t integer(StringRef key, int64_t most,
                  std::optional<int64_t> missing = {});
  double number(StringRef key, std::optional<double> missing = {});

  Status findFamily();
  void readSizes();
  void readAttention();
  void readWindows();
  void readRope();
  /// Reads divisors of the rotary frequencies from a tensor.
  std::vector<double> readDivisors(const char *name, int64_t count);
  void readEndIds();
  void nameWeights();
  void checkKeys();

  std::string prefix() const { return family->name.str() + "."; }

  const GgufFile &file;
  std::string where;
  const GgufFamily *family = nullptr;
  ModelConfig config;
  Status failure;
  std::set<std::string, std::less<>> readKeys;
};

} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

const GgufValue *GgufConfigReader::find(StringRef key) {
  std::string whole = prefix() + key.str();
  readKeys.insert(whole);
  return file.find(whole);
}

int64_t GgufConfigReader::integer(StringRef key, int64_t most,
                                  std::optional<int64_t> missing) {
  const GgufValue *value = find(key);
  if (!value && missing)
    return *missing;
  std::optional<int64_t> found;
  if (value && value->type == GgufType::Array) {
    // One number per layer; models whose layers differ are not supported.
    std::optional<std::vector<double>> numbers = value->numbers();
    if (numbers && !numbers->empty() && llvm::all_equal(*numbers) &&
        std::trunc(numbers->front()) == numbers->front() &&
        std::abs(numbers->front()) <= double(most))
      found = int64_t(numbers->front());
    else if (numbers && !llvm::all_equal(*numbers)) {
      fail("'" + prefix() + key +
           "' differs between layers, which is not "
           "supported");
      return 1;
    }
  } else if (value) {
    found = value->integer();
  }
  if (found && *found >= 1 && *found <= most)
    return *found;
  fail("'" + prefix() + key + "' " +
       (!value  ? "is missing"
        : found ? "is " + std::to_string(*found)
                : "is no integer") +
       "; it must be an integer from 1 to " + llvm::Twine(most));
  return 1;
}

double GgufConfigReader::number(StringRef key, std::optional<double> missing) {
  const GgufValue *value = find(key);
  if (!value && missing)
    return *missing;
  std::optional<double> found = value ? value->number() : std::nullopt;
  if (found && std::isfinite(float(*found)) && *found >= 0)
    return *found;
  fail("'" + prefix() + key + "' " +
       (value ? "is no finite positive number" : "is missing"));
  return 1;
}

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

Status GgufConfigReader::findFamily() {
  const GgufValue *value = file.find("general.architecture");
  std::optional<StringRef> name = value ? value->text() : std::nullopt;
  if (!name)
    return bad("has no 'general.architecture'; it is not a model");
  family = llvm::find_if(kGgufFamilies, [&](const GgufFamily &entry) {
    return entry.name == *name;
  });
  if (family != std::end(kGgufFamilies))
    return {};
  std::string names = llvm::join(
      llvm::map_range(kGgufFamilies,
                      [](const GgufFamily &entry) { return entry.name; }),
      ", ");
  return bad("has the architecture '" +
             printable(std::string_view(name->take_front(100))) +
             "'; supported are " + names);
}

void GgufConfigReader::readSizes() {
  config.architecture = "GGUF '" + family->name.str() + "'";
  config.layers = integer("block_count", kMostLayers);
  config.width = integer("embedding_length", kMostWidth);
  config.positions = integer("context_length", kMostPositions);
  config.inner = integer("feed_forward_length", kMostWidth);
  auto embedding = file.tensors.find("token_embd.weight");
  if (embedding == file.tensors.end())
    return fail("has no tensor 'token_embd.weight'; a file of a split model "
                "must be merged with the others");
  const std::vector<int64_t> &shape = embedding->second.shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMostVocabulary)
    return fail("tensor 'token_embd.weight' must be a matrix with 1 to " +
                llvm::Twine(kMostVocabulary) + " rows");
  config.vocabulary = shape[0];
  for (const char *key : {"expert_count", "expert_used_count"})
    if (const GgufValue *value = find(key); value && value->integer() != 0)
      fail("is a mixture of experts, which is not supported");
}

void GgufConfigReader::readAttention() {
  config.heads = integer("attention.head_count", kMostWidth);
  config.kvHeads = integer("attention.head_count_kv", kMostWidth, config.heads);
  std::optional<int64_t> size;
  if (config.width % config.heads == 0)
    size = config.width / config.heads;
  config.headSize = integer("attention.key_length", kMostHeadSize, size);
  if (config.headSize > kMostHeadSize)
    fail("has heads of " + llvm::Twine(config.headSize) +
         " elements; at most " + llvm::Twine(kMostHeadSize) + " are supported");
  int64_t valueSize =
      integer("attention.value_length", kMostWidth, config.headSize);
  if (valueSize != config.headSize)
    fail("has keys of " + llvm::Twine(config.headSize) + " and values of " +
         llvm::Twine(valueSize) + " elements per head; they must be equal");
  if (config.heads % config.kvHeads)
    fail("has " + llvm::Twine(config.heads) + " heads for " +
         llvm::Twine(config.kvHeads) +
         " heads of keys and values, which must divide them");
  bool byWidth = config.layers == family->layersScaledByWidth;
  config.attentionScale =
      1 / std::sqrt(byWidth ? double(config.width) / double(config.heads)
                            : double(config.headSize));
  config.attentionScale = number("attention.scale", config.attentionScale);
  config.attentionCap = number("attn_logit_softcapping", family->attentionCap);
  config.logitCap = number("final_logit_softcapping", family->logitCap);
  bool isRms = config.norm == NormKind::Rms;
  config.epsilon = number(isRms ? "attention.layer_norm_rms_epsilon"
                                : "attention.layer_norm_epsilon");
  if (!(float(config.epsilon) > 0))
    fail("has an epsilon of its norms that is not above zero");
  if (const GgufValue *causal = find("attention.causal"))
    if (!causal->flag().value_or(false))
      fail("is not a decoder: '" + prefix() + "attention.causal' is false");
  readWindows();
}

void GgufConfigReader::readWindows() {
  const GgufValue *value = find("attention.sliding_window");
  const GgufValue *pattern = find("attention.sliding_window_pattern");
  if (value && value->integer() == 0)
    return;
  if (!value && family->windowPeriod == 0)
    return;
  int64_t window = integer("attention.sliding_window", kMostPositions);
  if (pattern && pattern->type == GgufType::Array) {
    // One boolean per layer.
    std::optional<std::vector<double>> isWindowed = pattern->numbers();
    if (!isWindowed || int64_t(isWindowed->size()) != config.layers)
      return fail("'" + prefix() +
                  "attention.sliding_window_pattern' must have one value for "
                  "each of the " +
                  llvm::Twine(config.layers) + " layers");
    for (double flag : *isWindowed)
      config.windows.push_back(flag != 0 ? window : 0);
    return;
  }
  int64_t period =
      integer("attention.sliding_window_pattern", kMostLayers,
              family->windowPeriod ? family->windowPeriod : config.layers + 1);
  for (int64_t layer = 0; layer < config.layers; ++layer)
    config.windows.push_back(layer % period < period - 1 ? window : 0);
}

void GgufConfigReader::readRope() {
  if (family->hasPositionTable)
    return;
  int64_t rotary =
      integer("rope.dimension_count", config.headSize, config.headSize);
  if (rotary % 2)
    fail("'" + prefix() + "rope.dimension_count' is " + llvm::Twine(rotary) +
         ", but must be even");
  RopeOptions options;
  options.rotary = rotary;
  options.theta = number("rope.freq_base", 10000);
  options.positions = config.positions;
  options.original = integer("rope.scaling.original_context_length",
                             kMostPositions, config.positions);
  options.factor =
      number("rope.scaling.factor", number("rope.scale_linear", 1));
  double attention = number("rope.scaling.attn_factor", 1);
  options.fast = number("rope.scaling.yarn_beta_fast", options.fast);
  options.slow = number("rope.scaling.yarn_beta_slow", options.slow);
  // Old files have a factor without a type.
  std::string type = options.factor == 1 ? "none" : "linear";
  if (const GgufValue *value = find("rope.scaling.type"))
    type = value->text().value_or("").str();
  for (double number :
       {options.theta, options.factor, attention, options.fast, options.slow})
    if (number == 0)
      return fail("has a number of zero among '" + prefix() +
                  "rope.freq_base' and '" + prefix() + "rope.scaling'");
  RopeOptions unscaled = options;
  auto setDivisors = [&](const char *name) {
    options.scaling = RopeScaling::LongRope;
    options.attentionFactor = attention;
    options.divisors = readDivisors(name, rotary / 2);
  };
  if (type == "longrope") {
    // The short divisors are those of sequences up to the original length.
    setDivisors("rope_factors_short.weight");
    config.mostTokens = mostTokensOf(options);
  } else if (has("rope_freqs.weight")) {
    setDivisors("rope_freqs.weight");
  } else if (type == "linear") {
    options.scaling = RopeScaling::Linear;
    options.attentionFactor = attention;
  } else if (type == "yarn") {
    options.scaling = RopeScaling::Yarn;
    options.attentionFactor = attention * (0.1 * std::log(options.factor) + 1);
    if (options.theta <= 1)
      fail("'" + prefix() + "rope.freq_base' is not above 1");
  } else if (type != "none") {
    fail("'" + prefix() + "rope.scaling.type' is '" +
         printable(std::string_view(type).substr(0, 100)) +
         "'; supported are none, linear, yarn and longrope");
  }
  if (!failure.ok())
    return;
  config.ropes.push_back(makeRope(options));
  if (!isFinite(config.ropes.back()))
    return fail("has rotary frequencies that are not finite");
  unscaled.theta = number("rope.freq_base_swa", family->windowBase);
  if (unscaled.theta == 0 || config.windows.empty())
    return;
  config.ropes.push_back(makeRope(unscaled));
  if (!isFinite(config.ropes.back()))
    return fail("has rotary frequencies that are not finite");
  for (int64_t window : config.windows)
    config.ropeOfLayer.push_back(window ? 1 : 0);
}

std::vector<double> GgufConfigReader::readDivisors(const char *name,
                                                   int64_t count) {
  auto found = file.tensors.find(name);
  if (found == file.tensors.end() || found->second.format->name != "F32" ||
      found->second.bytes.size() != uint64_t(count) * sizeof(float)) {
    fail("needs a tensor '" + llvm::Twine(name) + "' of " + llvm::Twine(count) +
         " elements of type F32");
    return {};
  }
  std::vector<double> divisors;
  for (int64_t i = 0; i < count; ++i) {
    float divisor;
    std::memcpy(&divisor, found->second.bytes.data() + i * sizeof(float),
                sizeof(float));
    if (!(divisor > 0) || std::isinf(divisor))
      fail("tensor '" + llvm::Twine(name) + "' has the divisor " +
           std::to_string(divisor) + "; all must be positive");
    divisors.push_back(divisor);
  }
  return divisors;
}

void GgufConfigReader::readEndIds() {
  for (StringRef key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const GgufValue *value = file.find(key);
    std::optional<int64_t> id = value ? value->integer() : std::nullopt;
    if (id && *id >= 0 && *id < config.vocabulary &&
        !llvm::is_contained(config.endIds, *id))
      config.endIds.push_back(*id);
  }
}

void GgufConfigReader::nameWeights() {
  auto name = [&](Role role, const char *text) { config.names[role] = text; };
  name(Role::TokenEmbedding, "token_embd");
  name(Role::FinalNorm, "output_norm");
  if (has("output.weight"))
    name(Role::Head, "output");
  else
    config.isTied = true;
  if (config.hasPositionTable)
    name(Role::PositionEmbedding, "position_embd");
  name(Role::AttentionNorm, "blk.{}.attn_norm");
  name(Role::AttentionOut, "blk.{}.attn_output");
  name(Role::MlpNorm, "blk.{}.ffn_norm");
  name(Role::Down, "blk.{}.ffn_down");
  name(config.fusesGateUp ? Role::FusedGateUp : Role::Up, "blk.{}.ffn_up");
  if (config.isGated && !config.fusesGateUp)
    name(Role::Gate, "blk.{}.ffn_gate");
  if (config.qkv == QkvForm::Separate) {
    name(Role::Query, "blk.{}.attn_q");
    name(Role::Key, "blk.{}.attn_k");
    name(Role::Value, "blk.{}.attn_v");
  } else {
    name(Role::FusedQkv, "blk.{}.attn_qkv");
  }
  if (config.qkNorm) {
    name(Role::QueryNorm, "blk.{}.attn_q_norm");
    name(Role::KeyNorm, "blk.{}.attn_k_norm");
  }
  if (config.place == NormPlace::Both) {
    name(Role::PostAttentionNorm, "blk.{}.post_attention_norm");
    name(Role::PostMlpNorm, "blk.{}.post_ffw_norm");
  }
  bool isFused = config.qkv != QkvForm::Separate;
  config.qkvBias = has(isFused ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
  config.attentionOutBias = has("blk.0.attn_output.bias");
  config.mlpBias = has("blk.0.ffn_down.bias");
  // Read with the configuration.
  config.ignored = {"rope_freqs.weight", "rope_factors_*"};
}

/// Refuses values of the architecture that read() did not ask for, since they
/// may change what the model computes.
void GgufConfigReader::checkKeys() {
  for (const auto &[key, value] : file.metadata) {
    StringRef rest = key;
    if (rest.consume_front(prefix()) && !readKeys.contains(key) &&
        !llvm::is_contained(kIrrelevant, rest))
      return fail("has the value '" +
                  printable(std::string_view(key).substr(0, 100)) +
                  "', which is not supported");
  }
}

Result<ModelConfig> GgufConfigReader::read() {
  if (Status status = findFamily(); !status.ok())
    return status;
  config.norm = family->norm;
  config.normBias = family->norm == NormKind::Layer;
  config.place = family->place;
  config.qkv = family->qkv;
  config.pairs = family->pairs;
  config.isGated = family->isGated;
  config.fusesGateUp = family->fusesGateUp;
  config.activation = family->activation;
  config.qkNorm = family->qkNorm;
  config.hasPositionTable = family->hasPositionTable;
  readSizes();
  readAttention();
  readRope();
  if (family->scalesEmbedding)
    config.embeddingScale = std::sqrt(double(config.width));
  if (const GgufValue *parallel = find("use_parallel_residual"))
    config.isParallel = parallel->flag().value_or(false);
  readEndIds();
  nameWeights();
  checkKeys();
  if (!failure.ok())
    return failure;
  return std::move(config);
}

Result<ModelConfig> checkpoint::readGgufConfig(const GgufFile &file,
                                               const std::string &where) {
  return GgufConfigReader(file, where).read();
}
