//===- Digests.h - digests of results ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SHA-256 of arrays, to compare the results of two machines bit by bit without
// copying them. Uses neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_DIGESTS_H
#define MPC_TOOLS_MPC_DIGESTS_H

#include "PreparedModel.h"

#include <span>
#include <string>

namespace mpc::tool {

/// Returns the SHA-256 of an array in host memory, as hexadecimal digits: of
/// its type and shape as text, "f32[2,3]", a zero byte, and the elements in
/// row-major order, little-endian.
std::string digestOf(const Buffer &array);

/// Returns the digests of `arrays` by the names of `values`.
Json digestsOf(std::span<const ProgramValue> values,
               std::span<const Buffer> arrays);

/// Runs the model of `options` and compares its results with the document of
/// `mpc run --digest --json` in `file`. Inputs are random by seed unless given.
/// Returns the exit code.
int checkDigests(const CommonOptions &options, const std::string &file);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_DIGESTS_H
