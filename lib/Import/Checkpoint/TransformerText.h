//===- TransformerText.h - transformers as mpc-dialect text -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERTEXT_H
#define MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERTEXT_H

#include "ModelConfig.h"
#include "WeightStore.h"

#include <set>

namespace mpc::checkpoint {

/// Extents of a model's inputs.
struct Extents {
  int64_t batch = 1, tokens = 1;
  /// Rows of the KV caches; with 0 a decoder has no cache inputs.
  int64_t past = 0;
};

/// Returns the text of a transformer for `extents`. Decoders have the inputs
/// and results of Optimum's exports with past: input_ids, attention_mask,
/// position_ids, past_key_values.N.key and .value; logits, present.N.key and
/// .value. Encoders have input_ids, attention_mask, and token_type_ids if the
/// model has more than one type; the results depend on ModelConfig::head.
/// Weights keep their types as external constants named by their identities.
/// Fails at `where` with the tensor that is missing or has another shape.
/// `used`, if given, receives the names of the tensors.
Result<std::string> writeTransformer(const ModelConfig &config,
                                     const WeightStore &weights,
                                     const Extents &extents,
                                     const std::string &where,
                                     std::set<std::string> *used = nullptr);

/// Names and shapes of a model's inputs for `extents`, in the order of the
/// text's arguments.
struct TransformerInput {
  std::string name;
  TensorType type;
};
std::vector<TransformerInput> transformerInputs(const ModelConfig &config,
                                                const Extents &extents);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_TRANSFORMERTEXT_H
