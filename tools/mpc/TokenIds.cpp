//===- TokenIds.cpp - texts as token ids ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenIds.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/Npy.h"

#include <charconv>

using namespace mpc;
using namespace mpc::tool;

Result<std::vector<int64_t>> tool::parseTokens(const std::string &text,
                                               const std::string &where) {
  static constexpr const char *kSpace = ", \t\r\n";
  std::vector<int64_t> tokens;
  for (size_t at = text.find_first_not_of(kSpace); at != std::string::npos;) {
    size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    int64_t token = 0;
    auto [rest, error] =
        std::from_chars(text.data() + at, text.data() + end, token);
    if (error != std::errc() || rest != text.data() + end)
      return Status(StatusCode::InvalidArgument, where,
                    "'" + text.substr(at, std::min<size_t>(end - at, 40)) +
                        "' is not a token id; give numbers separated by commas "
                        "or spaces");
    tokens.push_back(token);
    at = text.find_first_not_of(kSpace, end);
  }
  if (tokens.empty())
    return Status(StatusCode::InvalidArgument, where,
                  "has no tokens; give at least one");
  return tokens;
}

Result<std::vector<int64_t>> tool::readTokens(const std::string &path) {
  if (!path.ends_with(".npy")) {
    Result<std::string> text = readWholeFile(path);
    if (!text.ok())
      return text.status();
    return parseTokens(*text, path);
  }
  Result<Buffer> array = readNpy(path);
  if (!array.ok())
    return array.status();
  std::vector<int64_t> tokens;
  auto append = [&](auto ids) { tokens.assign(ids.begin(), ids.end()); };
  if (array->type().element == ElementType::I64)
    append(std::as_const(*array).as<int64_t>());
  else if (array->type().element == ElementType::I32)
    append(std::as_const(*array).as<int32_t>());
  else
    return Status(StatusCode::InvalidArgument, path,
                  "is " + array->type().toString() +
                      ", but token ids are i64 or i32");
  if (tokens.empty())
    return Status(StatusCode::InvalidArgument, path,
                  "has no tokens; give at least one");
  return tokens;
}
