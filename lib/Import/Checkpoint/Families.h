//===- Families.h - model families of Hugging Face --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What configuration files do not contain: which block forms a family has, and
// how it names keys and tensors.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_FAMILIES_H
#define MPC_LIB_IMPORT_CHECKPOINT_FAMILIES_H

#include "ModelConfig.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mpc::checkpoint {

/// Name of a role's tensor. "~" is the prefix of the base model, which its own
/// checkpoints lack; "{}" is the layer's index.
struct TensorName {
  Role role;
  const char *name;
};

/// A flag that a key of the configuration sets; its value if there is no key.
struct Flag {
  const char *key = nullptr;
  bool value = false;
};

/// A dense layer before the head.
struct HeadTransform {
  /// False if there is none.
  bool exists = false;
  /// Key of the activation; null for `activation`.
  const char *key = nullptr;
  Activation activation = Activation::Tanh;
  Flag bias = {nullptr, true};
  bool hasNorm = false;
};

/// A class of the transformers library.
struct Architecture {
  const char *name;
  HeadKind head = HeadKind::CausalLm;
  HeadTransform transform = {};
  Flag bias = {};
  llvm::ArrayRef<TensorName> names = {};
};

/// Which layers have a sliding window if the configuration has no list
/// `layer_types`.
enum class WindowLayers {
  None,
  All,
  /// From `max_window_layers` on, if `use_sliding_window`.
  FromLayer,
  /// All but the last of each period.
  AllButLast,
  /// All but the first of each period.
  AllButFirst,
};

struct Windows {
  WindowLayers layers = WindowLayers::None;
  const char *key = "sliding_window";
  /// Value of a missing key, in tokens; 0: no window, as for null.
  int64_t defaultValue = 0;
  /// Divides the key's value: encoders have half of the window on each side.
  int64_t divisor = 1;
  /// Key and default of the period.
  const char *periodKey = nullptr;
  int64_t period = 1;
};

enum class RopeForm {
  None,
  One,
  /// Layers with a sliding window have another base than the others.
  ByWindow,
};

struct RopeKeys {
  RopeForm form = RopeForm::None;
  /// Keys of the base in configurations without `rope_parameters`.
  llvm::ArrayRef<const char *> theta = {};
  double defaultTheta = 10000;
  /// The same of layers with a sliding window.
  const char *windowTheta = nullptr;
  /// Key of the rotated fraction of a head; null if the family rotates whole
  /// heads.
  const char *fraction = nullptr;
  double defaultFraction = 1;
};

/// Limit c of c * tanh(x / c): its key, and its value if the key is missing.
/// Null stands for no limit.
struct Cap {
  const char *key = nullptr;
  double value = 0;
};

/// Keys of sizes, and defaults of some.
struct SizeKeys {
  const char *layers = "num_hidden_layers", *width = "hidden_size",
             *heads = "num_attention_heads", *inner = "intermediate_size",
             *positions = "max_position_embeddings", *epsilon = "rms_norm_eps",
             *activation = "hidden_act";
  /// Head size if there is no key `head_dim`; 0: width / heads.
  int64_t headSize = 0;
  /// Width of the MLP if there is no key, in widths; 0: the key is required.
  int64_t innerWidths = 0;
  double defaultEpsilon = 1e-6;
  const char *defaultActivation = "silu";
};

struct Family {
  const char *modelType;
  llvm::ArrayRef<Architecture> architectures;
  const char *prefix;
  llvm::ArrayRef<TensorName> names;
  /// Names that replace some of `names`.
  llvm::ArrayRef<TensorName> replacements = {};
  SizeKeys keys = {};

  NormKind norm = NormKind::Rms;
  double normOffset = 0;
  Flag normBias = {};
  NormPlace place = NormPlace::Before;
  Flag isParallel = {};
  bool skipsFirstNorm = false, hasFinalNorm = true;

  QkvForm qkv = QkvForm::Separate;
  Flag qkvBias = {}, attentionOutBias = {};
  bool qkNorm = false;
  /// Key of the number whose inverse square root scales the scores, instead of
  /// the head size.
  const char *scaleKey = nullptr;
  Cap attentionCap = {}, logitCap = {};
  RopeKeys rope = {};
  Windows windows = {};

  bool isGated = true, fusesGateUp = false, isTransposed = false;
  Flag mlpBias = {};

  /// True if embeddings are multiplied by the square root of the width.
  bool scalesEmbeddings = false;
  bool hasPositionTable = false, countsPositions = false, hasTypes = false,
       hasEmbeddingNorm = false;
  bool isTied = false;
  /// Key of the reduction of a sequence for its classification, "cls" or
  /// "mean"; null for the first token.
  const char *poolingKey = nullptr;
  /// Keys that have no effect, besides those of all configurations, and keys
  /// that must have a certain value: JSON text.
  llvm::ArrayRef<const char *> ignoredKeys = {};
  llvm::ArrayRef<std::pair<const char *, const char *>> requiredValues = {};
  /// Tensors that are not needed (ModelConfig::ignored).
  llvm::ArrayRef<const char *> ignoredTensors = {};
};

llvm::ArrayRef<Family> families();

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_FAMILIES_H
