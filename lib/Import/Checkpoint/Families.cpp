//===- Families.cpp - model families of Hugging Face ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of keys and tensors, and defaults, are those of the transformers
// library (https://github.com/huggingface/transformers), version 5.
//
//===----------------------------------------------------------------------===//

#include "Families.h"

using namespace mpc;
using namespace mpc::checkpoint;

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

static constexpr TensorName kLlamaNames[] = {
    {Role::TokenEmbedding, "~embed_tokens"},
    {Role::AttentionNorm, "~layers.{}.input_layernorm"},
    {Role::Query, "~layers.{}.self_attn.q_proj"},
    {Role::Key, "~layers.{}.self_attn.k_proj"},
    {Role::Value, "~layers.{}.self_attn.v_proj"},
    {Role::FusedQkv, "~layers.{}.self_attn.qkv_proj"},
    {Role::QueryNorm, "~layers.{}.self_attn.q_norm"},
    {Role::KeyNorm, "~layers.{}.self_attn.k_norm"},
    {Role::AttentionOut, "~layers.{}.self_attn.o_proj"},
    {Role::MlpNorm, "~layers.{}.post_attention_layernorm"},
    {Role::Gate, "~layers.{}.mlp.gate_proj"},
    {Role::Up, "~layers.{}.mlp.up_proj"},
    {Role::FusedGateUp, "~layers.{}.mlp.gate_up_proj"},
    {Role::Down, "~layers.{}.mlp.down_proj"},
    {Role::FinalNorm, "~norm"},
    {Role::Head, "lm_head"},
};

/// Gemma has norms after attention and MLP as well.
static constexpr TensorName kGemmaNames[] = {
    {Role::PostAttentionNorm, "~layers.{}.post_attention_layernorm"},
    {Role::MlpNorm, "~layers.{}.pre_feedforward_layernorm"},
    {Role::PostMlpNorm, "~layers.{}.post_feedforward_layernorm"},
};

static constexpr TensorName kGpt2Names[] = {
    {Role::TokenEmbedding, "~wte"},
    {Role::PositionEmbedding, "~wpe"},
    {Role::AttentionNorm, "~h.{}.ln_1"},
    {Role::FusedQkv, "~h.{}.attn.c_attn"},
    {Role::AttentionOut, "~h.{}.attn.c_proj"},
    {Role::MlpNorm, "~h.{}.ln_2"},
    {Role::Up, "~h.{}.mlp.c_fc"},
    {Role::Down, "~h.{}.mlp.c_proj"},
    {Role::FinalNorm, "~ln_f"},
    {Role::Head, "lm_head"},
};

static constexpr TensorName kNeoXNames[] = {
    {Role::TokenEmbedding, "~embed_in"},
    {Role::AttentionNorm, "~layers.{}.input_layernorm"},
    {Role::FusedQkv, "~layers.{}.attention.query_key_value"},
    {Role::AttentionOut, "~layers.{}.attention.dense"},
    {Role::MlpNorm, "~layers.{}.post_attention_layernorm"},
    {Role::Up, "~layers.{}.mlp.dense_h_to_4h"},
    {Role::Down, "~layers.{}.mlp.dense_4h_to_h"},
    {Role::FinalNorm, "~final_layer_norm"},
    {Role::Head, "embed_out"},
};

static constexpr Architecture kLlama[] = {{"LlamaForCausalLM"}},
                              kMistral[] = {{"MistralForCausalLM"}},
                              kQwen2[] = {{"Qwen2ForCausalLM"}},
                              kQwen3[] = {{"Qwen3ForCausalLM"}},
                              kGemma2[] = {{"Gemma2ForCausalLM"}},
                              kGemma3[] = {{"Gemma3ForCausalLM"}},
                              kPhi3[] = {{"Phi3ForCausalLM"}},
                              kGpt2[] = {{"GPT2LMHeadModel"}},
                              kNeoX[] = {{"GPTNeoXForCausalLM"}};

static constexpr const char *kTheta[] = {"rope_theta"};
static constexpr const char *kNeoXTheta[] = {"rope_theta", "rotary_emb_base"};
static constexpr const char *kGlobalTheta[] = {"rope_theta",
                                               "global_rope_theta"};

static constexpr const char *kRopeBuffers[] = {"*.rotary_emb.inv_freq"};
/// Causal masks that old versions of the library saved.
static constexpr const char *kGpt2Buffers[] = {"*.attn.bias",
                                               "*.attn.masked_bias"};
static constexpr const char *kNeoXBuffers[] = {
    "*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};

static constexpr const char *kGpt2Keys[] = {
    "n_ctx",           "reorder_and_upcast_attn", "summary_activation",
    "summary_type",    "summary_first_dropout",   "summary_proj_to_labels",
    "summary_use_proj"};
static constexpr std::pair<const char *, const char *> kGpt2Values[] = {
    {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"add_cross_attention", "false"}};
static constexpr std::pair<const char *, const char *> kGemmaValues[] = {
    {"use_bidirectional_attention", "false"}};
/// Gemma 3 has this key, but does not apply it.
static constexpr std::pair<const char *, const char *> kGemma3Values[] = {
    {"use_bidirectional_attention", "false"},
    {"attn_logit_softcapping", "null"}};
/// Gemma's first configurations had the activation under two keys.
static constexpr const char *kGemmaKeys[] = {"hidden_act",
                                             "cache_implementation"};

//===----------------------------------------------------------------------===//
// Encoders
//===----------------------------------------------------------------------===//

static constexpr TensorName kBertNames[] = {
    {Role::TokenEmbedding, "~embeddings.word_embeddings"},
    {Role::PositionEmbedding, "~embeddings.position_embeddings"},
    {Role::TypeEmbedding, "~embeddings.token_type_embeddings"},
    {Role::EmbeddingNorm, "~embeddings.LayerNorm"},
    {Role::AttentionNorm, "~encoder.layer.{}.attention"},
    {Role::Query, "~encoder.layer.{}.attention.self.query"},
    {Role::Key, "~encoder.layer.{}.attention.self.key"},
    {Role::Value, "~encoder.layer.{}.attention.self.value"},
    {Role::AttentionOut, "~encoder.layer.{}.attention.output.dense"},
    {Role::PostAttentionNorm, "~encoder.layer.{}.attention.output.LayerNorm"},
    {Role::Up, "~encoder.layer.{}.intermediate.dense"},
    {Role::Down, "~encoder.layer.{}.output.dense"},
    {Role::PostMlpNorm, "~encoder.layer.{}.output.LayerNorm"},
    {Role::Pooler, "~pooler.dense"},
};

static constexpr TensorName kBertMlm[] = {
    {Role::HeadTransform, "cls.predictions.transform.dense"},
    {Role::HeadNorm, "cls.predictions.transform.LayerNorm"},
    {Role::Head, "cls.predictions.decoder"},
    {Role::HeadBias, "cls.predictions.bias"},
};
static constexpr TensorName kBertClassifier[] = {
    {Role::HeadTransform, "~pooler.dense"},
    {Role::Head, "classifier"},
    {Role::HeadBias, "classifier.bias"},
};
static constexpr Architecture kBert[] = {
    {"BertModel", HeadKind::None},
    {"BertForMaskedLM",
     HeadKind::MaskedLm,
     {.exists = true, .key = "hidden_act", .hasNorm = true},
     {nullptr, true},
     kBertMlm},
    {"BertForSequenceClassification",
     HeadKind::SequenceClassification,
     {.exists = true},
     {nullptr, true},
     kBertClassifier},
    {"BertForTokenClassification",
     HeadKind::TokenClassification,
     {},
     {nullptr, true},
     kBertClassifier},
};

static constexpr TensorName kRobertaMlm[] = {
    {Role::HeadTransform, "lm_head.dense"},
    {Role::HeadNorm, "lm_head.layer_norm"},
    {Role::Head, "lm_head.decoder"},
    {Role::HeadBias, "lm_head.bias"},
};
static constexpr TensorName kRobertaClassifier[] = {
    {Role::HeadTransform, "classifier.dense"},
    {Role::Head, "classifier.out_proj"},
    {Role::HeadBias, "classifier.out_proj.bias"},
};
static constexpr Architecture kRoberta[] = {
    {"RobertaModel", HeadKind::None},
    {"RobertaForMaskedLM",
     HeadKind::MaskedLm,
     {.exists = true, .activation = Activation::Gelu, .hasNorm = true},
     {nullptr, true},
     kRobertaMlm},
    {"RobertaForSequenceClassification",
     HeadKind::SequenceClassification,
     {.exists = true},
     {nullptr, true},
     kRobertaClassifier},
    {"RobertaForTokenClassification",
     HeadKind::TokenClassification,
     {},
     {nullptr, true},
     kBertClassifier},
};

static constexpr TensorName kModernBertNames[] = {
    {Role::TokenEmbedding, "~embeddings.tok_embeddings"},
    {Role::EmbeddingNorm, "~embeddings.norm"},
    {Role::AttentionNorm, "~layers.{}.attn_norm"},
    {Role::FusedQkv, "~layers.{}.attn.Wqkv"},
    {Role::AttentionOut, "~layers.{}.attn.Wo"},
    {Role::MlpNorm, "~layers.{}.mlp_norm"},
    {Role::FusedGateUp, "~layers.{}.mlp.Wi"},
    {Role::Down, "~layers.{}.mlp.Wo"},
    {Role::FinalNorm, "~final_norm"},
    {Role::HeadTransform, "head.dense"},
    {Role::HeadNorm, "head.norm"},
};
static constexpr TensorName kModernBertMlm[] = {
    {Role::Head, "decoder"},
    {Role::HeadBias, "decoder.bias"},
};
static constexpr TensorName kModernBertClassifier[] = {
    {Role::Head, "classifier"},
    {Role::HeadBias, "classifier.bias"},
};
static constexpr HeadTransform kModernBertHead = {
    .exists = true,
    .key = "classifier_activation",
    .activation = Activation::Gelu,
    .bias = {"classifier_bias", false},
    .hasNorm = true};
static constexpr Architecture kModernBert[] = {
    {"ModernBertModel", HeadKind::None},
    {"ModernBertForMaskedLM",
     HeadKind::MaskedLm,
     kModernBertHead,
     {"decoder_bias", true},
     kModernBertMlm},
    {"ModernBertForSequenceClassification",
     HeadKind::SequenceClassification,
     kModernBertHead,
     {nullptr, true},
     kModernBertClassifier},
    {"ModernBertForTokenClassification",
     HeadKind::TokenClassification,
     kModernBertHead,
     {nullptr, true},
     kModernBertClassifier},
};

/// Heads of pretraining, and poolers of models without one.
static constexpr const char *kBertTensors[] = {
    "*position_ids", "cls.seq_relationship.*", "*pooler.dense.*"};
static constexpr std::pair<const char *, const char *> kBertValues[] = {
    {"position_embedding_type", "\"absolute\""},
    {"is_decoder", "false"},
    {"add_cross_attention", "false"}};
static constexpr const char *kModernBertKeys[] = {"classifier_activation",
                                                  "classifier_bias",
                                                  "classifier_pooling",
                                                  "decoder_bias",
                                                  "cls_token_id",
                                                  "sep_token_id",
                                                  "deterministic_flash_attn",
                                                  "initializer_cutoff_factor",
                                                  "sparse_pred_ignore_index",
                                                  "sparse_prediction",
                                                  "reference_compile",
                                                  "repad_logits_with_grad",
                                                  "position_embedding_type"};

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

static constexpr SizeKeys kBertSizes = {.epsilon = "layer_norm_eps",
                                        .defaultEpsilon = 1e-12,
                                        .defaultActivation = "gelu"};
static constexpr Flag kYes = {nullptr, true};
static constexpr Flag kAttentionBias = {"attention_bias", false};

llvm::ArrayRef<Family> mpc::checkpoint::families() {
  static const Family table[] = {
      {.modelType = "llama",
       .architectures = kLlama,
       .prefix = "model.",
       .names = kLlamaNames,
       .qkvBias = kAttentionBias,
       .attentionOutBias = kAttentionBias,
       .rope = {.form = RopeForm::One, .theta = kTheta},
       .mlpBias = {"mlp_bias", false},
       .ignoredTensors = kRopeBuffers},
      {.modelType = "mistral",
       .architectures = kMistral,
       .prefix = "model.",
       .names = kLlamaNames,
       .rope = {.form = RopeForm::One, .theta = kTheta},
       .windows = {.layers = WindowLayers::All, .defaultValue = 4096},
       .ignoredTensors = kRopeBuffers},
      {.modelType = "qwen2",
       .architectures = kQwen2,
       .prefix = "model.",
       .names = kLlamaNames,
       .qkvBias = kYes,
       .rope = {.form = RopeForm::One, .theta = kTheta},
       .windows = {.layers = WindowLayers::FromLayer, .defaultValue = 4096},
       .ignoredTensors = kRopeBuffers},
      {.modelType = "qwen3",
       .architectures = kQwen3,
       .prefix = "model.",
       .names = kLlamaNames,
       .keys = {.headSize = 128},
       .qkvBias = kAttentionBias,
       .attentionOutBias = kAttentionBias,
       .qkNorm = true,
       .rope = {.form = RopeForm::One, .theta = kTheta},
       .windows = {.layers = WindowLayers::FromLayer, .defaultValue = 4096}},
      {.modelType = "gemma2",
       .architectures = kGemma2,
       .prefix = "model.",
       .names = kLlamaNames,
       .replacements = kGemmaNames,
       .keys = {.activation = "hidden_activation",
                .headSize = 256,
                .defaultActivation = "gelu_pytorch_tanh"},
       .normOffset = 1,
       .place = NormPlace::Both,
       .qkvBias = kAttentionBias,
       .attentionOutBias = kAttentionBias,
       .scaleKey = "query_pre_attn_scalar",
       .attentionCap = {"attn_logit_softcapping", 50},
       .logitCap = {"final_logit_softcapping", 30},
       .rope = {.form = RopeForm::One, .theta = kTheta},
       .windows = {.layers = WindowLayers::AllButLast,
                   .defaultValue = 4096,
                   .period = 2},
       .scalesEmbeddings = true,
       .isTied = true,
       .ignoredKeys = kGemmaKeys,
       .requiredValues = kGemmaValues},
      {.modelType = "gemma3_text",
       .architectures = kGemma3,
       .prefix = "model.",
       .names = kLlamaNames,
       .replacements = kGemmaNames,
       .keys = {.activation = "hidden_activation",
                .headSize = 256,
                .defaultActivation = "gelu_pytorch_tanh"},
       .normOffset = 1,
       .place = NormPlace::Both,
       .qkvBias = kAttentionBias,
       .attentionOutBias = kAttentionBias,
       .qkNorm = true,
       .scaleKey = "query_pre_attn_scalar",
       .logitCap = {"final_logit_softcapping"},
       .rope = {.form = RopeForm::ByWindow,
                .theta = kTheta,
                .defaultTheta = 1e6,
                .windowTheta = "rope_local_base_freq"},
       .windows = {.layers = WindowLayers::AllButLast,
                   .defaultValue = 4096,
                   .periodKey = "sliding_window_pattern",
                   .period = 6},
       .scalesEmbeddings = true,
       .isTied = true,
       .ignoredKeys = kGemmaKeys,
       .requiredValues = kGemma3Values},
      {.modelType = "phi3",
       .architectures = kPhi3,
       .prefix = "model.",
       .names = kLlamaNames,
       .keys = {.defaultEpsilon = 1e-5},
       .qkv = QkvForm::Stacked,
       .rope = {.form = RopeForm::One,
                .theta = kTheta,
                .fraction = "partial_rotary_factor"},
       .windows = {.layers = WindowLayers::All},
       .fusesGateUp = true},
      {.modelType = "gpt2",
       .architectures = kGpt2,
       .prefix = "transformer.",
       .names = kGpt2Names,
       .keys = {.layers = "n_layer",
                .width = "n_embd",
                .heads = "n_head",
                .inner = "n_inner",
                .positions = "n_positions",
                .epsilon = "layer_norm_epsilon",
                .activation = "activation_function",
                .innerWidths = 4,
                .defaultEpsilon = 1e-5,
                .defaultActivation = "gelu_new"},
       .norm = NormKind::Layer,
       .normBias = kYes,
       .qkv = QkvForm::Stacked,
       .qkvBias = kYes,
       .attentionOutBias = kYes,
       .isGated = false,
       .isTransposed = true,
       .mlpBias = kYes,
       .hasPositionTable = true,
       .isTied = true,
       .ignoredKeys = kGpt2Keys,
       .requiredValues = kGpt2Values,
       .ignoredTensors = kGpt2Buffers},
      {.modelType = "gpt_neox",
       .architectures = kNeoX,
       .prefix = "gpt_neox.",
       .names = kNeoXNames,
       .keys = {.epsilon = "layer_norm_eps",
                .defaultEpsilon = 1e-5,
                .defaultActivation = "gelu"},
       .norm = NormKind::Layer,
       .normBias = kYes,
       .isParallel = {"use_parallel_residual", true},
       .qkv = QkvForm::PerHead,
       .qkvBias = {"attention_bias", true},
       .attentionOutBias = {"attention_bias", true},
       .rope = {.form = RopeForm::One,
                .theta = kNeoXTheta,
                .fraction = "rotary_pct",
                .defaultFraction = 0.25},
       .isGated = false,
       .mlpBias = kYes,
       .requiredValues = llvm::ArrayRef(kBertValues).slice(1, 1),
       .ignoredTensors = kNeoXBuffers},
      {.modelType = "bert",
       .architectures = kBert,
       .prefix = "bert.",
       .names = kBertNames,
       .keys = kBertSizes,
       .norm = NormKind::Layer,
       .normBias = kYes,
       .place = NormPlace::AfterSum,
       .hasFinalNorm = false,
       .qkvBias = kYes,
       .attentionOutBias = kYes,
       .isGated = false,
       .mlpBias = kYes,
       .hasPositionTable = true,
       .hasTypes = true,
       .hasEmbeddingNorm = true,
       .isTied = true,
       .requiredValues = kBertValues,
       .ignoredTensors = kBertTensors},
      {.modelType = "roberta",
       .architectures = kRoberta,
       .prefix = "roberta.",
       .names = kBertNames,
       .keys = kBertSizes,
       .norm = NormKind::Layer,
       .normBias = kYes,
       .place = NormPlace::AfterSum,
       .hasFinalNorm = false,
       .qkvBias = kYes,
       .attentionOutBias = kYes,
       .isGated = false,
       .mlpBias = kYes,
       .hasPositionTable = true,
       .countsPositions = true,
       .hasTypes = true,
       .hasEmbeddingNorm = true,
       .isTied = true,
       .requiredValues = kBertValues,
       .ignoredTensors = kBertTensors},
      {.modelType = "modernbert",
       .architectures = kModernBert,
       .prefix = "model.",
       .names = kModernBertNames,
       .keys = {.epsilon = "norm_eps",
                .activation = "hidden_activation",
                .defaultEpsilon = 1e-5,
                .defaultActivation = "gelu"},
       .norm = NormKind::Layer,
       .normBias = {"norm_bias", false},
       .skipsFirstNorm = true,
       .qkv = QkvForm::Stacked,
       .qkvBias = kAttentionBias,
       .attentionOutBias = kAttentionBias,
       .rope = {.form = RopeForm::ByWindow,
                .theta = kGlobalTheta,
                .defaultTheta = 160000,
                .windowTheta = "local_rope_theta"},
       .windows = {.layers = WindowLayers::AllButFirst,
                   .key = "local_attention",
                   .defaultValue = 128,
                   .divisor = 2,
                   .periodKey = "global_attn_every_n_layers",
                   .period = 3},
       .fusesGateUp = true,
       .mlpBias = {"mlp_bias", false},
       .hasEmbeddingNorm = true,
       .isTied = true,
       .poolingKey = "classifier_pooling",
       .ignoredKeys = kModernBertKeys},
  };
  return table;
}
