//===- StrictJson.h - parsing of untrusted JSON -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_STRICTJSON_H
#define MPC_SUPPORT_STRICTJSON_H

#include "mpc/Runtime/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace mpc {

/// Maximum nesting of arrays and objects. Copies and texts of JSON values
/// recurse.
inline constexpr size_t kMostJsonDepth = 64;

/// Parses a JSON object in linear time. Fails at `where`, with `what` as the
/// subject ("has a header"), if `text` is not one, if it is nested deeper than
/// kMostJsonDepth, or if an object has a key twice, which would hide an entry.
Result<nlohmann::json> parseStrictJson(std::string_view text,
                                       const std::string &where,
                                       const std::string &what);

} // namespace mpc

#endif // MPC_SUPPORT_STRICTJSON_H
