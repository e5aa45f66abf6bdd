//===- Tokens.h - files of tokens -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TOKENS_H
#define MPC_LIB_TRAINING_TOKENS_H

#include "mpc/Runtime/Buffer.h"

#include <string>

namespace mpc::training {

/// The file of tokens that `path` names for a part ("train" or "test") of a
/// data set: `path` itself for "train" where it ends in .npy or .bin; in a
/// folder `train.npy` or `train.bin`, and `test` or `val` with these ends.
/// Empty where there is none.
std::string findTokens(const std::string &path, const std::string &part);

/// The tokens of a file: a .npy of one dimension of integers, or else 16-bit
/// unsigned ones with nothing around them. They are mapped, not read: a text
/// may be larger than memory, and must stay as it is while the buffer lives.
Result<Buffer> mapTokens(const std::string &path);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_TOKENS_H
