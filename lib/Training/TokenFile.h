//===- TokenFile.h - token files --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_TOKENFILE_H
#define MPC_LIB_TRAINING_TOKENFILE_H

#include "mpc/Runtime/Buffer.h"

#include <string>

namespace mpc::training {

/// Returns the token file of a split ("train" or "test") in `path`: `path`
/// itself for "train" if it ends in .npy or .bin; in a folder `train.npy` or
/// `train.bin`, and `test` or `val` with these extensions. Empty if there is
/// none.
std::string findTokens(const std::string &path, const std::string &part);

/// Maps a token file: a 1-D integer .npy, else raw unsigned 16-bit integers.
/// Memory-mapped, since a file may be larger than memory; must not change while
/// the buffer lives.
Result<Buffer> mapTokens(const std::string &path);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_TOKENFILE_H
