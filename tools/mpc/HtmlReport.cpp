//===- HtmlReport.cpp - report as an HTML page ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HtmlReport.h"

#include "Runtime/Sha256.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include <nettle/base64.h>
#include <span>
#include <string_view>

using namespace mpc;
using namespace mpc::tool;

#include "ReportParts.inc"

/// Escapes JSON for an HTML script element: '<' occurs in strings only, where
/// it can be escaped.
static std::string scriptText(const Json &json) {
  std::string text = jsonText(json);
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
  // Content security policy: only this script may run, whatever names contain.
  detail::Sha256Digest digest = detail::sha256(
      std::as_bytes(std::span(kReportScript.data(), kReportScript.size())));
  std::string hash(BASE64_ENCODE_RAW_LENGTH(digest.size()), '\0');
  base64_encode_raw(hash.data(), digest.size(), digest.data());
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
  // "{{name}}" is replaced by a part; parts are not searched again.
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
