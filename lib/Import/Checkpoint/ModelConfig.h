//===- ModelConfig.h - hyperparameters of a transformer ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A transformer as a choice of block forms, independent of the file format and
// of the model family: what one family does differently is a field here, never
// a branch on its name.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_MODELCONFIG_H
#define MPC_LIB_IMPORT_CHECKPOINT_MODELCONFIG_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::checkpoint {

/// A weight's place in the network.
enum class Role {
  TokenEmbedding,    // [vocabulary, width]
  PositionEmbedding, // [positions, width]
  TypeEmbedding,     // [types, width]
  EmbeddingNorm,     // [width]; after the sum of the embeddings
  AttentionNorm,     // [width]; before attention
  PostAttentionNorm, // [width]; after attention
  Query,             // [heads * headSize, width]
  Key,               // [kvHeads * headSize, width]
  Value,             // [kvHeads * headSize, width]
  FusedQkv,          // [(heads + 2 * kvHeads) * headSize, width]
  QueryNorm,         // [headSize]
  KeyNorm,           // [headSize]
  AttentionOut,      // [width, heads * headSize]
  MlpNorm,           // [width]; before the MLP
  PostMlpNorm,       // [width]; after the MLP
  Gate,              // [inner, width]
  Up,                // [inner, width]
  FusedGateUp,       // [2 * inner, width]: gate, then up
  Down,              // [width, inner]
  FinalNorm,         // [width]
  Pooler,            // [width, width], of the first token
  HeadTransform,     // [width, width], before the head
  HeadNorm,          // [width]
  Head,              // [vocabulary or classes, width]
  HeadBias,          // [vocabulary]; a vector that is stored on its own
  RopeFactors,       // [rotary / 2]; divisors of the rotary frequencies
};

enum class NormKind { Rms, Layer };

/// Where a block's norms are.
enum class NormPlace {
  /// x + f(norm(x))
  Before,
  /// x + norm(f(norm(x)))
  Both,
  /// norm(x + f(x))
  AfterSum,
};

enum class Activation { Gelu, GeluTanh, Silu, Relu, Tanh };

/// Storage of the projections of query, key and value.
enum class QkvForm {
  Separate,
  /// Rows of all queries, then keys, then values.
  Stacked,
  /// Rows of query, key and value of the first head, then the next.
  PerHead,
};

/// Order of the two elements that a rotary embedding rotates together.
enum class RopePairs {
  /// Elements i and i + rotary / 2.
  Halves,
  /// Elements 2 i and 2 i + 1.
  Adjacent,
};

/// Rotary position embedding (Su et al., arXiv 2104.09864) of some layers.
struct Rope {
  /// Rotated elements of each head, from the first one.
  int64_t rotary = 0;
  /// Angle per position of each pair; `rotary / 2` numbers, scaling included.
  std::vector<float> frequencies;
  /// Factor of cosine and sine (YaRN, LongRoPE).
  double factor = 1;

  bool operator==(const Rope &) const = default;
};

/// What the model returns.
enum class HeadKind {
  /// Logits of the next token, with KV caches.
  CausalLm,
  /// last_hidden_state, and pooler_output if there is a pooler.
  None,
  MaskedLm,
  /// Logits of classes, of the first token.
  SequenceClassification,
  TokenClassification,
};

/// Reduction of a sequence's hidden states for its classification.
enum class Pooling { FirstToken, Mean };

/// Numbers are bounded by their reader so that no product of three overflows.
struct ModelConfig {
  /// "LlamaForCausalLM"; in messages only.
  std::string architecture;
  HeadKind head = HeadKind::CausalLm;

  int64_t layers = 0, width = 0, vocabulary = 0;
  /// Rows of the table of positions, or the length the model was trained for.
  int64_t positions = 0;
  /// Maximum length of a sequence in tokens, beyond which rotary embeddings
  /// would depend on the length; 0 if there is none.
  int64_t mostTokens = 0;
  int64_t heads = 0, kvHeads = 0, headSize = 0;
  /// Width of the MLP.
  int64_t inner = 0;

  NormKind norm = NormKind::Rms;
  double epsilon = 1e-6;
  /// Added to the weights of all norms (Gemma: 1).
  double normOffset = 0;
  bool normBias = false;
  NormPlace place = NormPlace::Before;
  /// True for x + attention(norm1(x)) + mlp(norm2(x)).
  bool isParallel = false;
  /// Layers without Role::AttentionNorm, whose input is normalized already.
  std::vector<bool> skipsAttentionNorm;
  bool hasFinalNorm = true;

  QkvForm qkv = QkvForm::Separate;
  bool qkvBias = false, attentionOutBias = false;
  /// RMS norms of each head of query and key.
  bool qkNorm = false;
  /// Factor of the scores.
  double attentionScale = 1;
  /// c of c * tanh(score / c); 0 if there is none.
  double attentionCap = 0;
  /// Rotary embeddings that layers use; empty if the model has none.
  std::vector<Rope> ropes;
  RopePairs pairs = RopePairs::Halves;
  /// Index into `ropes` of each layer; empty if all use the first.
  std::vector<unsigned> ropeOfLayer;
  /// Sliding window of each layer, in tokens including the current one, for
  /// decoders; distance to the farthest token on both sides for encoders. 0 if
  /// the layer has none; empty if no layer has one.
  std::vector<int64_t> windows;

  bool isGated = true, fusesGateUp = false, mlpBias = false;
  Activation activation = Activation::Silu;
  /// True if matrices of layers are stored [in, out] (GPT-2).
  bool isTransposed = false;

  /// Factor of the token embeddings.
  double embeddingScale = 1;
  bool hasPositionTable = false;
  /// Positions count the tokens that differ from this one, from one after it;
  /// it has itself as its position (RoBERTa).
  std::optional<int64_t> padding;
  /// Number of token types; 0 if the model has none.
  int64_t types = 0;
  bool hasEmbeddingNorm = false;

  /// True if the head's matrix is the token embedding.
  bool isTied = false;
  bool headBias = false;
  /// c of c * tanh(logit / c); 0 if there is none.
  double logitCap = 0;
  bool hasPooler = false;
  /// Activation of a dense layer before the head; nullopt if there is none.
  std::optional<Activation> headTransform;
  bool headTransformBias = true, headTransformNorm = false;
  Pooling pooling = Pooling::FirstToken;
  /// Outputs of a classifier.
  int64_t classes = 0;

  /// Tokens that end a generated text.
  std::vector<int64_t> endIds;

  /// Name of each weight the model may have: weight and bias add ".weight" and
  /// ".bias", except HeadBias and RopeFactors, which are whole names. "{}" is
  /// the layer's index.
  std::map<Role, std::string> names;
  /// Tensors of the file that the model does not need: names, with one "*" for
  /// any text.
  std::vector<std::string> ignored;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_MODELCONFIG_H
