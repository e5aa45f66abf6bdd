//===- StrictJson.cpp - parsing of untrusted JSON -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/StrictJson.h"

#include <set>
#include <vector>

using namespace mpc;
using Json = nlohmann::json;

Result<Json> mpc::parseStrictJson(std::string_view text,
                                  const std::string &where,
                                  const std::string &what) {
  std::vector<std::set<std::string>> keys;
  bool twice = false;
  Json parsed = Json::parse(
      text,
      [&](int, Json::parse_event_t event, Json &value) {
        if (event == Json::parse_event_t::object_start)
          keys.emplace_back();
        else if (event == Json::parse_event_t::object_end)
          keys.pop_back();
        else if (event == Json::parse_event_t::key)
          twice |=
              !keys.back().insert(value.get_ref<const std::string &>()).second;
        return true;
      },
      /*allow_exceptions=*/false);
  const char *reason = !parsed.is_object() ? " that is not a JSON object"
                       : twice             ? " with a duplicate name"
                                           : nullptr;
  if (reason)
    return Status(StatusCode::InvalidArgument, where, what + reason);
  return parsed;
}
