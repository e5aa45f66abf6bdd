//===- EscapedText.cpp - escaping of untrusted text -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

using namespace mpc;

namespace {

/// A decoded character, or one invalid byte.
struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool isValid = false;
};

struct Range {
  uint32_t first, last;
};

} // namespace

/// Invisible characters and those that change the display of others: categories
/// Cc, Cf, Zl and Zp of Unicode 15.
static constexpr Range kHidden[] = {
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},
    {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},
    {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},
    {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F},
    {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE007F}};

static bool isHidden(uint32_t code) {
  const Range *found =
      std::upper_bound(std::begin(kHidden), std::end(kHidden), code,
                       [](uint32_t c, Range range) { return c < range.first; });
  return found != std::begin(kHidden) && code <= std::prev(found)->last;
}

/// Decodes the first character of `text`, which is not empty. Overlong forms,
/// surrogates and codes above U+10FFFF are invalid (Unicode 15, table 3-7).
static Character firstOf(std::string_view text) {
  auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80)
    return {lead, 1, true};
  size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes)
    return {lead, 1, false};
  uint32_t code = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80)
      return {lead, 1, false};
    code = code << 6 | (next & 0x3F);
  }
  bool isOverlong =
      (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (isOverlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
    return {lead, 1, false};
  return {code, bytes, true};
}

/// Returns "\x1b", "\u202e" or, above U+FFFF, "\U000e0001".
static std::string escaped(Character character) {
  char text[12];
  const char *form = !character.isValid || character.code < 0x80 ? "\\x%02x"
                     : character.code <= 0xFFFF                  ? "\\u%04x"
                                                                 : "\\U%08x";
  std::snprintf(text, sizeof(text), form, unsigned(character.code));
  return text;
}

/// Escapes the characters of `text` that `isPlain` rejects.
template <typename Predicate>
static std::string escapeUnless(std::string_view text, Predicate isPlain) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    Character character = firstOf(text);
    if (character.isValid && isPlain(character.code))
      result += text.substr(0, character.bytes);
    else
      result += escaped(character);
    text.remove_prefix(character.bytes);
  }
  return result;
}

std::string mpc::printable(std::string_view text) {
  return escapeUnless(text, [](uint32_t code) { return !isHidden(code); });
}

std::string mpc::printableLines(std::string_view text) {
  return escapeUnless(
      text, [](uint32_t code) { return code == '\n' || !isHidden(code); });
}

std::string mpc::commentText(std::string_view text) {
  std::string line;
  // "??/" is a backslash to compilers with trigraphs.
  for (char c : escapeUnless(
           text, [](uint32_t code) { return code >= ' ' && code <= '~'; }))
    if (c == '?' && line.ends_with('?'))
      line += "\\x3f";
    else
      line += c;
  // Compilers ignore spaces after a backslash at the end.
  line.erase(line.find_last_not_of(' ') + 1);
  if (line.ends_with('\\'))
    line += "x5c";
  return line;
}

static bool isLetterOrDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z');
}

std::string mpc::identifierPart(std::string_view text) {
  std::string part;
  for (char c : text)
    if (isLetterOrDigit(c))
      part += c;
    else if (!part.empty() && part.back() != '_')
      part += '_';
  if (part.ends_with('_'))
    part.pop_back();
  return part;
}

std::string mpc::shellQuoted(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  bool isPlain = true;
  for (std::string_view rest = text; !rest.empty();) {
    Character character = firstOf(rest);
    isPlain &= character.isValid && !isHidden(character.code);
    rest.remove_prefix(character.bytes);
  }
  std::string quoted = isPlain ? "'" : "$'";
  for (char c : text)
    if (isPlain) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    } else if (c == '\'' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      // Octal: a hexadecimal escape would include following digits.
      char code[5];
      std::snprintf(code, sizeof(code), "\\%03o",
                    unsigned(static_cast<unsigned char>(c)));
      quoted += code;
    }
  return quoted + "'";
}

std::string mpc::shellWord(std::string_view text) {
  bool isPlain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return isLetterOrDigit(c) ||
               std::string_view("_-./:=").find(c) != std::string_view::npos;
      });
  return isPlain ? std::string(text) : shellQuoted(text);
}
