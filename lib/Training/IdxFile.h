//===- IdxFile.h - MNIST idx files ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TRAINING_IDXFILE_H
#define MPC_LIB_TRAINING_IDXFILE_H

#include "mpc/Runtime/Buffer.h"

#include <string>

namespace mpc::training {

/// Reads an idx file, plain or gzipped: two zero bytes, a type, the number of
/// dimensions, big-endian extents, then the elements, also big-endian. Files
/// are untrusted: sizes are checked before allocation.
Result<Buffer> readIdx(const std::string &path);

} // namespace mpc::training

#endif // MPC_LIB_TRAINING_IDXFILE_H
