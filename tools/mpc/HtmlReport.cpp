//===- HtmlReport.cpp - a command's document as a page --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HtmlReport.h"

#include "Runtime/Sha256.h"

#include "mpc/Support/Files.h"

#include <algorithm>
#include <span>
#include <string_view>

using namespace mpc;
using namespace mpc::tool;

#include "ReportParts.inc"

/// RFC 4648, with padding.
static std::string base64(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k)
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// `json` as text that an HTML parser takes for nothing but text: '<' stands in
/// strings alone, where it has another spelling.
static std::string scriptText(const Json &json) {
  // Names come from model files and need not be UTF-8.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

Status tool::writeHtmlReport(const std::string &path,
                             const std::string &command, const Json &document,
                             const Json &drawing) {
  // The page runs this script and no other, whatever names hold.
  detail::Sha256Digest digest = detail::sha256(
      std::as_bytes(std::span(kReportScript.data(), kReportScript.size())));
  std::string hash = base64(digest);
  std::string data = scriptText(
      {{"command", command}, {"document", document}, {"drawing", drawing}});
  auto part = [&](std::string_view name) -> std::string_view {
    if (name == "hash")
      return hash;
    if (name == "style")
      return kReportStyle;
    if (name == "data")
      return data;
    return kReportScript;
  };
  // "{{name}}" stands for a part; parts are not searched.
  std::string page;
  std::string_view rest = kReportPage;
  for (size_t begin; (begin = rest.find("{{")) != rest.npos;) {
    size_t end = rest.find("}}", begin);
    page += rest.substr(0, begin);
    page += part(rest.substr(begin + 2, end - begin - 2));
    rest.remove_prefix(end + 2);
  }
  page += rest;
  return writeWholeFile(path, {page});
}
