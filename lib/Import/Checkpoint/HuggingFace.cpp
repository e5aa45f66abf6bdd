//===- HuggingFace.cpp - configurations of Hugging Face models ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HuggingFace.h"

#include "ConfigReader.h"
#include "Families.h"
#include "RopeScaling.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/StrictJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;
using Json = nlohmann::json;

// Bounds that no model reaches; products of three fit into 63 bits.
static constexpr int64_t kMostLayers = 1 << 10, kMostWidth = 1 << 20,
                         kMostVocabulary = 1 << 24, kMostTokens = 1 << 30,
                         kMostHeadSize = 1 << 12;

/// Keys without an effect on inference, of any configuration: training,
/// tokenizer, and generation, which old versions saved here.
static constexpr const char *kIgnoredKeys[] = {
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "mlp_dropout",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

namespace {

/// Fills a ModelConfig from the keys of a family.
class FamilyReader {
public:
  FamilyReader(const Family &family, const Architecture &architecture,
               const Json &json, const std::string &where,
               const WeightStore &weights)
      : family(family), architecture(architecture), where(where),
        weights(weights), keys(json, where) {}

  Result<ModelConfig> read();

private:
  void readSizes();
  void readForms();
  void readWindows();
  void readRopes();
  void readHead();
  void readNames();
  /// Reads a scaling method with its parameters, which is at `path` of the
  /// configuration; `json` may be null.
  Rope readRope(const Json *json, const std::string &path, double theta);
  double readTheta();
  bool flag(const Flag &flag) {
    return flag.key ? keys.flag(flag.key, flag.value) : flag.value;
  }
  Activation activation(StringRef key, StringRef fallback);
  bool hasWindow(int64_t layer) const {
    return !config.windows.empty() && config.windows[layer] != 0;
  }

  const Family &family;
  const Architecture &architecture;
  std::string where;
  const WeightStore &weights;
  ConfigReader keys;
  ModelConfig config;
};

} // namespace

Activation FamilyReader::activation(StringRef key, StringRef fallback) {
  std::string name = keys.text(key, fallback);
  auto found = llvm::StringSwitch<std::optional<Activation>>(name)
                   .Case("gelu", Activation::Gelu)
                   .Cases({"gelu_new", "gelu_pytorch_tanh", "gelu_fast"},
                          Activation::GeluTanh)
                   .Cases({"silu", "swish"}, Activation::Silu)
                   .Case("relu", Activation::Relu)
                   .Case("tanh", Activation::Tanh)
                   .Default(std::nullopt);
  if (!found)
    keys.fail(key, "is \"" + printable(name.substr(0, 40)) +
                       "\", none of gelu, gelu_new, gelu_pytorch_tanh, silu, "
                       "relu and tanh");
  return found.value_or(Activation::Gelu);
}

void FamilyReader::readSizes() {
  const SizeKeys &names = family.keys;
  config.layers = keys.integer(names.layers, 1, kMostLayers);
  config.width = keys.integer(names.width, 1, kMostWidth);
  config.vocabulary = keys.integer("vocab_size", 1, kMostVocabulary);
  config.heads = keys.integer(names.heads, 1, kMostWidth);
  config.kvHeads =
      keys.integer("num_key_value_heads", 1, kMostWidth, config.heads);
  if (config.heads % config.kvHeads != 0)
    keys.fail("num_key_value_heads", "is " + std::to_string(config.kvHeads) +
                                         ", which does not divide the " +
                                         std::to_string(config.heads) +
                                         " heads");
  bool hasSize = keys.has("head_dim");
  int64_t size = names.headSize ? names.headSize : config.width / config.heads;
  config.headSize = keys.integer("head_dim", 1, kMostHeadSize, size);
  if (config.headSize > kMostHeadSize)
    keys.fail(names.heads,
              "gives heads of " + std::to_string(size) + " elements; at most " +
                  std::to_string(kMostHeadSize) + " are supported");
  if (!hasSize && !names.headSize && config.width % config.heads != 0)
    keys.fail(names.heads, "is " + std::to_string(config.heads) +
                               ", which does not divide the width " +
                               std::to_string(config.width));
  std::optional<int64_t> inner;
  if (names.innerWidths)
    inner = names.innerWidths * config.width;
  config.inner = keys.integer(names.inner, 1, 8 * kMostWidth, inner);
  config.positions = keys.integer(names.positions, 1, kMostTokens, 2048);
  config.epsilon = keys.positive(names.epsilon, names.defaultEpsilon);
}

void FamilyReader::readForms() {
  config.norm = family.norm;
  config.normOffset = family.normOffset;
  config.normBias = flag(family.normBias);
  config.place = family.place;
  config.isParallel = flag(family.isParallel);
  if (family.skipsFirstNorm) {
    config.skipsAttentionNorm.assign(config.layers, false);
    config.skipsAttentionNorm.front() = true;
  }
  config.hasFinalNorm = family.hasFinalNorm;
  config.qkv = family.qkv;
  config.qkvBias = flag(family.qkvBias);
  config.attentionOutBias = flag(family.attentionOutBias);
  config.qkNorm = family.qkNorm;
  double scaled = double(config.headSize);
  if (family.scaleKey)
    scaled = keys.positive(family.scaleKey, 256);
  config.attentionScale = 1 / std::sqrt(scaled);
  auto capOf = [&](const char *key) {
    return key ? keys.optionalPositive(key).value_or(0) : 0;
  };
  config.attentionCap = capOf(family.attentionCapKey);
  config.logitCap = capOf(family.logitCapKey);
  config.isGated = family.isGated;
  config.fusesGateUp = family.fusesGateUp;
  config.isTransposed = family.isTransposed;
  config.mlpBias = flag(family.mlpBias);
  config.activation =
      activation(family.keys.activation, family.keys.defaultActivation);
  if (family.scalesEmbeddings)
    config.embeddingScale = std::sqrt(double(config.width));
  config.hasPositionTable = family.hasPositionTable;
  if (family.countsPositions)
    config.padding = keys.integer("pad_token_id", 0, kMostVocabulary, 1);
  if (family.hasTypes)
    config.types = keys.integer("type_vocab_size", 1, kMostWidth, 2);
  config.hasEmbeddingNorm = family.hasEmbeddingNorm;
  config.isTied = keys.flag("tie_word_embeddings", family.isTied);
}

//===----------------------------------------------------------------------===//
// Windows and rotary embeddings
//===----------------------------------------------------------------------===//

void FamilyReader::readWindows() {
  const Windows &form = family.windows;
  if (form.layers == WindowLayers::None)
    return;
  int64_t window = keys.integer(form.key, 1, kMostTokens, 0) / form.divisor;
  bool isUsed = form.layers != WindowLayers::FromLayer ||
                keys.flag("use_sliding_window", false);
  int64_t first = form.layers == WindowLayers::FromLayer
                      ? keys.integer("max_window_layers", 0, kMostTokens, 28)
                      : 0;
  int64_t period = form.period;
  for (const char *key : {form.periodKey, "_sliding_window_pattern"})
    if (key && form.period > 1)
      period = keys.integer(key, 1, kMostLayers, period);
  std::vector<std::string> types = keys.texts("layer_types");
  if (!types.empty() && int64_t(types.size()) != config.layers) {
    keys.fail("layer_types", "has " + std::to_string(types.size()) +
                                 " entries for " +
                                 std::to_string(config.layers) + " layers");
    return;
  }
  std::vector<bool> slides(config.layers);
  for (int64_t i = 0; i < config.layers; ++i) {
    if (!types.empty()) {
      slides[i] = types[i] == "sliding_attention";
      if (!slides[i] && types[i] != "full_attention")
        keys.fail("layer_types",
                  "has the entry \"" + printable(types[i].substr(0, 40)) +
                      "\", neither full_attention nor sliding_attention");
      continue;
    }
    switch (form.layers) {
    case WindowLayers::None:
      break;
    case WindowLayers::All:
      slides[i] = true;
      break;
    case WindowLayers::FromLayer:
      slides[i] = i >= first;
      break;
    case WindowLayers::AllButLast:
      slides[i] = (i + 1) % period != 0;
      break;
    case WindowLayers::AllButFirst:
      slides[i] = i % period != 0;
      break;
    }
  }
  if (!isUsed || !llvm::is_contained(slides, true))
    return;
  if (window == 0) {
    bool isOptional = types.empty() && form.layers == WindowLayers::All;
    if (!isOptional)
      keys.fail(form.key, "is missing, but layers have a sliding window");
    return;
  }
  for (bool slide : slides)
    config.windows.push_back(slide ? window : 0);
}

double FamilyReader::readTheta() {
  double theta = family.rope.defaultTheta;
  for (const char *key : family.rope.theta)
    theta = keys.positive(key, theta);
  return theta;
}

Rope FamilyReader::readRope(const Json *json, const std::string &path,
                            double theta) {
  static const Json empty = Json::object();
  if (json && !json->is_object()) {
    keys.fail(path, "is not an object");
    return {};
  }
  ConfigReader rope(json ? *json : empty, where, path + ".");
  RopeOptions options;
  const char *typeKey = rope.has("rope_type") ? "rope_type" : "type";
  rope.find("type");
  std::string type = rope.text(typeKey, "default");
  auto scaling = llvm::StringSwitch<std::optional<RopeScaling>>(type)
                     .Case("default", RopeScaling::None)
                     .Case("linear", RopeScaling::Linear)
                     .Case("dynamic", RopeScaling::Dynamic)
                     .Case("yarn", RopeScaling::Yarn)
                     .Case("llama3", RopeScaling::Llama3)
                     .Cases({"longrope", "su"}, RopeScaling::LongRope)
                     .Default(std::nullopt);
  if (!scaling)
    rope.fail(typeKey, "is \"" + printable(type.substr(0, 40)) +
                           "\", none of default, linear, dynamic, yarn, "
                           "llama3 and longrope");
  options.scaling = scaling.value_or(RopeScaling::None);
  options.theta = rope.positive("rope_theta", theta);
  double fraction = rope.positive(
      "partial_rotary_factor",
      keys.positive(family.rope.fraction, family.rope.defaultFraction));
  options.rotary = int64_t(double(config.headSize) * std::min(fraction, 1.0));
  if (fraction > 1 || options.rotary < 2 || options.rotary % 2 != 0)
    rope.fail("partial_rotary_factor",
              "gives " + std::to_string(options.rotary) +
                  " rotated elements of a head of " +
                  std::to_string(config.headSize) +
                  "; an even number up to the head size is expected");
  options.positions = config.positions;
  int64_t original = keys.integer("original_max_position_embeddings", 2,
                                  kMostTokens, config.positions);
  options.original = rope.integer("original_max_position_embeddings", 2,
                                  kMostTokens, original);
  bool isScaled = options.scaling != RopeScaling::None,
       isLong = options.scaling == RopeScaling::LongRope;
  double ratio = double(options.positions) / double(options.original);
  // Phi-3 extends by the ratio of two lengths.
  options.factor =
      rope.positive("factor", isScaled && !isLong ? std::optional<double>()
                                                  : std::optional(ratio));
  if (options.scaling == RopeScaling::Llama3) {
    options.low = rope.positive("low_freq_factor");
    options.high = rope.positive("high_freq_factor");
    if (options.low >= options.high)
      rope.fail("high_freq_factor", "is not above low_freq_factor");
  }
  if (options.scaling == RopeScaling::Yarn) {
    options.fast = rope.positive("beta_fast", 32);
    options.slow = rope.positive("beta_slow", 1);
    options.truncates = rope.flag("truncate", true);
    options.scale = rope.optionalPositive("mscale");
    options.scaleAllDim = rope.optionalPositive("mscale_all_dim");
    if (options.theta <= 1)
      rope.fail("rope_theta", "is not above 1");
  }
  if (options.scaling == RopeScaling::Yarn || isLong)
    options.attentionFactor = rope.optionalPositive("attention_factor");
  if (isLong) {
    options.divisors = rope.numbers("short_factor");
    rope.find("long_factor");
    if (int64_t(options.divisors.size()) != options.rotary / 2) {
      rope.fail("short_factor",
                "has " + std::to_string(options.divisors.size()) +
                    " numbers for " + std::to_string(options.rotary / 2) +
                    " rotated pairs");
      options.divisors.assign(size_t(options.rotary / 2), 1);
    }
  }
  // Old configurations have keys of other methods.
  rope.ignore({"finetuned"});
  keys.adopt(rope.finish());
  if (!keys.status().ok())
    return {};
  if (int64_t most = mostTokensOf(options); most > 0)
    config.mostTokens =
        config.mostTokens ? std::min(config.mostTokens, most) : most;
  return makeRope(options);
}

void FamilyReader::readRopes() {
  if (family.rope.form == RopeForm::None)
    return;
  double theta = readTheta(), windowTheta = 10000;
  if (family.rope.windowTheta)
    windowTheta = keys.positive(family.rope.windowTheta, windowTheta);
  // Version 5 has rope_parameters, with the base; earlier ones rope_scaling.
  const Json *scaling = keys.find("rope_scaling");
  std::string path = "rope_scaling";
  if (const Json *parameters = keys.find("rope_parameters")) {
    scaling = parameters;
    path = "rope_parameters";
  }
  if (family.rope.form == RopeForm::One) {
    config.ropes.push_back(readRope(scaling, path, theta));
    return;
  }
  const Json *full = scaling, *sliding = nullptr;
  std::string fullPath = path, slidingPath = path;
  if (scaling && scaling->is_object() && scaling->contains("full_attention")) {
    ConfigReader byType(*scaling, where, path + ".");
    full = byType.find("full_attention");
    sliding = byType.find("sliding_attention");
    keys.adopt(byType.finish());
    fullPath += ".full_attention";
    slidingPath += ".sliding_attention";
  }
  config.ropes.push_back(readRope(full, fullPath, theta));
  config.ropes.push_back(readRope(sliding, slidingPath, windowTheta));
  for (int64_t i = 0; i < config.layers; ++i)
    config.ropeOfLayer.push_back(hasWindow(i) ? 1 : 0);
}

//===----------------------------------------------------------------------===//
// Heads and names
//===----------------------------------------------------------------------===//

void FamilyReader::readNames() {
  // The base model's own checkpoints have no prefix.
  llvm::SmallVector<llvm::ArrayRef<TensorName>, 3> lists = {
      family.names, family.replacements, architecture.names};
  std::string prefix = family.prefix;
  for (const TensorName &entry : family.names)
    if (entry.role == Role::TokenEmbedding &&
        weights.find(std::string(entry.name).substr(1) + ".weight"))
      prefix.clear();
  for (llvm::ArrayRef<TensorName> list : lists)
    for (const TensorName &entry : list) {
      StringRef name = entry.name;
      bool isInside = name.consume_front("~");
      config.names[entry.role] = (isInside ? prefix : "") + name.str();
    }
  config.ignored.assign(family.ignoredTensors.begin(),
                        family.ignoredTensors.end());
  if (config.isTied)
    config.ignored.push_back(config.names[Role::Head] + ".weight");
}

void FamilyReader::readHead() {
  config.head = architecture.head;
  config.headBias = flag(architecture.bias);
  const HeadTransform &transform = architecture.transform;
  if (transform.exists) {
    config.headTransform = transform.key ? activation(transform.key, "gelu")
                                         : transform.activation;
    config.headTransformBias = flag(transform.bias);
    config.headTransformNorm = transform.hasNorm;
  }
  bool isClassifier = config.head == HeadKind::SequenceClassification ||
                      config.head == HeadKind::TokenClassification;
  std::string pooling = "cls";
  if (family.modelType == StringRef("modernbert")) {
    pooling = keys.text("classifier_pooling", "cls");
    keys.ignore({"classifier_bias", "classifier_activation", "decoder_bias"});
  }
  if (pooling == "mean")
    config.pooling = Pooling::Mean;
  else if (pooling != "cls")
    keys.fail("classifier_pooling",
              "is \"" + printable(pooling) + "\", neither cls nor mean");
  if (isClassifier)
    config.isTied = false;
  readNames();
  std::string head = config.names[Role::Head] + ".weight";
  const StoredTensor *tensor = weights.find(head);
  // A missing matrix is reported when the graph is written.
  if (isClassifier)
    config.classes =
        tensor && tensor->type.shape.size() == 2 ? tensor->type.shape[0] : 2;
  config.hasPooler = config.head == HeadKind::None &&
                     config.names.contains(Role::Pooler) &&
                     weights.find(config.names[Role::Pooler] + ".weight");
}

Result<ModelConfig> FamilyReader::read() {
  config.architecture = architecture.name;
  if (keys.has("quantization_config"))
    keys.fail("quantization_config",
              "describes quantized weights, which are not supported; give the "
              "model before its quantization");
  readSizes();
  if (!keys.status().ok())
    return keys.status();
  readForms();
  readWindows();
  readRopes();
  readHead();
  for (const auto &[key, value] : family.requiredValues)
    keys.require(key, Json::parse(value));
  const Json *pruned = keys.find("pruned_heads");
  if (pruned && !pruned->empty())
    keys.fail("pruned_heads", "is not empty, which is not supported");
  keys.ignore(kIgnoredKeys);
  keys.ignore(family.ignoredKeys);
  // Keys of other models of the family, without an effect on this one.
  keys.ignore({"max_window_layers", "use_sliding_window"});
  if (Status status = keys.finish(); !status.ok())
    return status;
  return std::move(config);
}

/// Lists the known architectures.
static std::string knownArchitectures() {
  std::string list;
  for (const Family &family : families())
    for (const Architecture &architecture : family.architectures)
      list += (list.empty() ? "" : ", ") + std::string(architecture.name);
  return list;
}

Result<ModelConfig>
mpc::checkpoint::readHuggingFaceConfig(std::string_view text,
                                       const std::string &where,
                                       const WeightStore &weights) {
  Result<Json> json = parseStrictJson(text, where, "has a configuration");
  if (!json.ok())
    return json.status();
  ConfigReader keys(*json, where);
  std::vector<std::string> architectures = keys.texts("architectures");
  if (!keys.status().ok())
    return keys.status();
  if (architectures.empty())
    return Status(StatusCode::InvalidArgument, where,
                  "has no key 'architectures' with the class of the model");
  const std::string &name = architectures.front();
  for (const Family &family : families())
    for (const Architecture &architecture : family.architectures)
      if (name == architecture.name) {
        Result<ModelConfig> config =
            FamilyReader(family, architecture, *json, where, weights).read();
        if (!config.ok())
          return config.status();
        Result<std::vector<int64_t>> ends = readEndIds(text, where);
        if (!ends.ok())
          return ends.status();
        config->endIds = *ends;
        return config;
      }
  return Status(StatusCode::InvalidArgument, where,
                "has the architecture '" + printable(name.substr(0, 100)) +
                    "', which is not supported; the supported ones are " +
                    knownArchitectures());
}

Result<std::vector<int64_t>>
mpc::checkpoint::readEndIds(std::string_view text, const std::string &where) {
  Result<Json> json = parseStrictJson(text, where, "has a configuration");
  if (!json.ok())
    return json.status();
  std::vector<int64_t> ids;
  auto found = json->find("eos_token_id");
  if (found == json->end() || found->is_null())
    return ids;
  Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json &id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMostVocabulary)
      return Status(StatusCode::InvalidArgument, where,
                    "key 'eos_token_id' is neither a token id nor a list of "
                    "token ids");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}
