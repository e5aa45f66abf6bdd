//===- GgufConfig.h - model configuration in GGUF metadata ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_GGUFCONFIG_H
#define MPC_LIB_IMPORT_CHECKPOINT_GGUFCONFIG_H

#include "Gguf.h"
#include "ModelConfig.h"

namespace mpc::checkpoint {

/// Returns the configuration of the model in `file`, with GGUF's tensor names.
/// Fails on an architecture that is not supported, on a metadata value of the
/// architecture that has no counterpart in ModelConfig, and on numbers out of
/// range. `where` is the location of failures.
Result<ModelConfig> readGgufConfig(const GgufFile &file,
                                   const std::string &where);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_GGUFCONFIG_H
