//===- SafetensorsStore.h - weights of safetensors files --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_SAFETENSORSSTORE_H
#define MPC_LIB_IMPORT_CHECKPOINT_SAFETENSORSSTORE_H

#include "WeightStore.h"

namespace mpc::checkpoint {

/// Opens the weights of a folder: `model.safetensors`, or else the shards that
/// `model.safetensors.index.json` lists. Untrusted: all files must be inside
/// the folder (InputFile::openInside()), every listed tensor in its shard, and
/// no tensor in two shards.
Result<std::unique_ptr<WeightStore>> openSafetensors(const std::string &folder);

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_SAFETENSORSSTORE_H
