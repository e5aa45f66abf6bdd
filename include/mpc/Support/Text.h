//===- Text.h - untrusted text in other languages ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names come from model files and may hold any bytes. One function per target
// language escapes them; whatever writes a language calls its function. MLIR's
// and LLVM's printers escape names by themselves. All functions are pure.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_TEXT_H
#define MPC_SUPPORT_TEXT_H

#include <string>
#include <string_view>

namespace mpc {

/// `text` as valid UTF-8 for terminals, logs and exceptions, on one line.
/// Control characters, line separators, invisible format characters (those that
/// reverse the direction of text among them) and bytes that are no UTF-8
/// become "\x1b" or "\u202e". A backslash stays as it is.
std::string printable(std::string_view text);

/// The same, but line feeds stay.
std::string printableLines(std::string_view text);

/// `text` as one line of a `//` comment of C, C++, CUDA C++ or MLIR: printable
/// ASCII, without trigraphs, that neither ends the line nor continues it.
std::string commentText(std::string_view text);

/// `text` as part of an identifier of C, a symbol or a file name: ASCII letters
/// and digits; each run of other characters is an underscore, none at either
/// end. Empty where nothing is left; may begin with a digit.
std::string identifierPart(std::string_view text);

/// `text` as one word of a POSIX shell, always quoted: 'it'\''s'. Control and
/// other characters that printable() escapes take the form $'a\012b' (POSIX
/// 2024, bash, zsh), so that a word is one line. A zero byte, which no argument
/// of a program has, ends the text.
std::string shellQuoted(std::string_view text);

/// The same, without quotes where no shell needs them.
std::string shellWord(std::string_view text);

/// A value of nlohmann's JSON as ASCII text. Bytes that are no UTF-8 become
/// U+FFFD. `indent`: spaces per level; negative: all on one line.
template <typename Json>
std::string jsonText(const Json &value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/true,
                    Json::error_handler_t::replace);
}

} // namespace mpc

#endif // MPC_SUPPORT_TEXT_H
