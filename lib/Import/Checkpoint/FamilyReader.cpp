//===- FamilyReader.cpp - configuration of a model family -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FamilyReader.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>
#include <cstring>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;
using Json = nlohmann::json;

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
  auto capOf = [&](const Cap &cap) {
    if (!cap.key)
      return 0.0;
    double missing = keys.isMissing(cap.key) ? cap.value : 0;
    return keys.optionalPositive(cap.key).value_or(missing);
  };
  config.attentionCap = capOf(family.attentionCap);
  config.logitCap = capOf(family.logitCap);
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
}

bool FamilyReader::areEqual(const std::string &first,
                            const std::string &second) {
  const StoredTensor *tensor = weights.find(first),
                     *other = weights.find(second);
  if (!tensor || !other || tensor->type != other->type)
    return false;
  Result<std::shared_ptr<const std::byte>> bytes = weights.read(first),
                                           others = weights.read(second);
  for (const Status &status : {bytes.status(), others.status()})
    if (!status.ok()) {
      keys.adopt(status);
      return false;
    }
  return std::memcmp(bytes->get(), others->get(),
                     size_t(*tensor->type.byteCount())) == 0;
}

void FamilyReader::readTies() {
  if (config.head == HeadKind::None)
    return;
  std::string head = config.names[Role::Head];
  bool wasTied = config.isTied;
  if (wasTied && weights.find(head + ".weight")) {
    config.isTied = areEqual(config.names[Role::TokenEmbedding] + ".weight",
                             head + ".weight");
    if (config.isTied)
      config.ignored.push_back(head + ".weight");
  }
  // BERT has the bias of the head's layer under a second name, tied as well.
  if (config.head != HeadKind::MaskedLm)
    return;
  std::string &bias = config.names[Role::HeadBias];
  std::string own = head + ".bias";
  if (bias != own && (!wasTied || weights.find(own))) {
    config.ignored.push_back(bias);
    bias = own;
  }
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
  std::string pooling =
      family.poolingKey ? keys.text(family.poolingKey, "cls") : "cls";
  if (pooling == "mean")
    config.pooling = Pooling::Mean;
  else if (pooling != "cls")
    keys.fail(family.poolingKey,
              "is \"" + printable(pooling) + "\", neither cls nor mean");
  if (isClassifier)
    config.isTied = false;
  readNames();
  readTies();
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
