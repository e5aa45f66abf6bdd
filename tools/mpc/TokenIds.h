//===- TokenIds.h - texts as token ids --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_TOKENIDS_H
#define MPC_TOOLS_MPC_TOKENIDS_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::tool {

/// Parses token ids separated by commas or white space, at least one; `where`
/// names them in errors.
Result<std::vector<int64_t>> parseTokens(const std::string &text,
                                         const std::string &where);

/// Reads token ids from a text file, or from a .npy file of i64 or i32.
Result<std::vector<int64_t>> readTokens(const std::string &path);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_TOKENIDS_H
