//===- EscapedText.h - escaping of untrusted text ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names in model files may contain any bytes. There is one escaping function
// per target language, which every writer of the language calls. MLIR's and
// LLVM's printers escape names themselves. All functions are pure.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_SUPPORT_ESCAPEDTEXT_H
#define MPC_SUPPORT_ESCAPEDTEXT_H

#include <string>
#include <string_view>

namespace mpc {

/// Escapes `text` as valid UTF-8 on one line for terminals, logs and
/// exceptions. Control characters, line separators, invisible format characters
/// (including those that reverse text direction) and invalid bytes become
/// "\x1b" or "\u202e". Backslashes are kept.
std::string printable(std::string_view text);

/// The same, but keeps line feeds.
std::string printableLines(std::string_view text);

/// Escapes `text` for one line of a `//` comment in C, C++, CUDA C++ or MLIR:
/// printable ASCII without trigraphs that neither ends nor continues the line.
std::string commentText(std::string_view text);

/// Converts `text` to part of a C identifier, symbol or file name: ASCII
/// letters and digits, with each run of other characters replaced by an
/// underscore, none at either end. Empty if nothing remains; may start with a
/// digit.
std::string identifierPart(std::string_view text);

/// Quotes `text` as one word of a POSIX shell: 'it'\''s'. Characters that
/// printable() escapes use the form $'a\012b' (POSIX 2024, bash, zsh), so that
/// a word is one line. A zero byte, which program arguments cannot contain,
/// ends the text.
std::string shellQuoted(std::string_view text);

/// The same, without quotes if no shell needs them.
std::string shellWord(std::string_view text);

/// Serializes a value of nlohmann's JSON as ASCII. Invalid UTF-8 becomes
/// U+FFFD. `indent`: spaces per level; negative: a single line.
template <typename Json>
std::string jsonText(const Json &value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/true,
                    Json::error_handler_t::replace);
}

} // namespace mpc

#endif // MPC_SUPPORT_ESCAPEDTEXT_H
