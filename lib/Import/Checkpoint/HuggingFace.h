//===- HuggingFace.h - configurations of Hugging Face models ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_HUGGINGFACE_H
#define MPC_LIB_IMPORT_CHECKPOINT_HUGGINGFACE_H

#include "ModelConfig.h"
#include "WeightStore.h"

#include <string_view>

namespace mpc::checkpoint {

/// Reads `config.json`, untrusted text of a file `where`. Fails at a key that
/// is unknown or has an unsupported value, and at an unknown architecture, with
/// the list of known ones. `weights` are the model's: some sizes are theirs
/// only.
Result<ModelConfig> readHuggingFaceConfig(std::string_view text,
                                          const std::string &where,
                                          const WeightStore &weights);

/// Returns `eos_token_id`, a number or a list, of a configuration.
Result<std::vector<int64_t>> readEndIds(std::string_view text,
                                        const std::string &where);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_HUGGINGFACE_H
