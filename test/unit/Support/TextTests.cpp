//===- TextTests.cpp - untrusted text in other languages ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/EscapedText.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace mpc;

namespace {

using namespace std::string_literals;

TEST(TextTest, PrintableKeepsVisibleCharacters) {
  for (const char *text : {"", "conv1/Relu_2", "a b", "it's \"x\" <y> $z `w`",
                           "caf\u00e9", "\u5c42", "\U0001f642", "C:\\x"})
    EXPECT_EQ(printable(text), text);
}

TEST(TextTest, PrintableEscapesWhatTheyDoNot) {
  EXPECT_EQ(printable("a\r\n\t\x1b[2K\x7f\0b"s),
            "a\\x0d\\x0a\\x09\\x1b[2K\\x7f\\x00b");
  // C1, line separators, a text that runs backwards, a byte order mark, tags.
  EXPECT_EQ(printable("\u0085\u009b\u2028\u2029\u202e\u2066\ufeff"),
            "\\u0085\\u009b\\u2028\\u2029\\u202e\\u2066\\ufeff");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
  EXPECT_EQ(printableLines("a\r\nb\vc"), "a\\x0d\nb\\x0bc");
}

TEST(TextTest, PrintableIsUtf8) {
  // A lone byte, an end, an overlong slash, a surrogate, beyond Unicode.
  EXPECT_EQ(printable("\x80x"), "\\x80x");
  EXPECT_EQ(printable("\xe5\xb1"), "\\xe5\\xb1");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(TextTest, CommentsAreOneLineOfAscii) {
  EXPECT_EQ(commentText("relu (layer/act)"), "relu (layer/act)");
  for (int byte = 0; byte < 256; ++byte) {
    std::string text = commentText("a"s + char(byte) + "b");
    for (char c : text)
      EXPECT_TRUE(c >= ' ' && c <= '~') << byte;
  }
  EXPECT_EQ(commentText("a\u2028b"), "a\\u2028b");
  // Neither a backslash nor its trigraph continues the line.
  EXPECT_EQ(commentText("a\\"), "a\\x5c");
  EXPECT_EQ(commentText("a\\  "), "a\\x5c");
  EXPECT_EQ(commentText("a?\?/"), "a?\\x3f/");
  EXPECT_EQ(commentText("a???\?/").find("??"), std::string::npos);
  EXPECT_EQ(commentText(commentText("a\r\\?\?/\\")),
            commentText("a\r\\?\?/\\"));
}

TEST(TextTest, IdentifierPartsAreLettersAndDigits) {
  EXPECT_EQ(identifierPart("/model/layer.0/MatMul_1"),
            "model_layer_0_MatMul_1");
  EXPECT_EQ(identifierPart("a(){};\n\"'\\b"), "a_b");
  EXPECT_EQ(identifierPart("caf\u00e9"), "caf");
  EXPECT_EQ(identifierPart("\u5c42"), "");
  EXPECT_EQ(identifierPart("__"), "");
}

/// The arguments that the shell parses from `words`, one per line.
std::string echoed(const std::string &words) {
  std::string command = "bash -c \"$TEXT_TEST_SCRIPT\"", output;
  setenv("TEXT_TEST_SCRIPT", ("printf '<%s>' " + words).c_str(), 1);
  FILE *pipe = popen(command.c_str(), "r");
  std::array<char, 256> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
    output.append(part.data(), got);
  EXPECT_EQ(pclose(pipe), 0);
  return output;
}

TEST(TextTest, ShellsReadOneWord) {
  EXPECT_EQ(shellWord("name:a/b.c=f32"), "name:a/b.c=f32");
  EXPECT_EQ(shellWord(""), "''");
  EXPECT_EQ(shellQuoted("plain"), "'plain'");
  EXPECT_EQ(shellQuoted("it's"), "'it'\\''s'");
  std::string all;
  for (int byte = 1; byte < 256; ++byte)
    all += char(byte);
  for (const std::string &text :
       {all, "it's $(id) `id` \"x\" \\"s, "\x1b[201~; id"s, "a\n0b"s,
        "\u202e0"s, "'"s, "\r'\\"s, "-x"s, "#"s, "~"s, "*"s}) {
    EXPECT_EQ(echoed(shellWord(text)), "<" + text + ">");
    for (char c : shellWord(text))
      EXPECT_TRUE(c >= ' ' && c <= '~') << text;
  }
}

TEST(TextTest, JsonIsAscii) {
  nlohmann::json value = {{"n\u2028\u00e9\x7f", "\x01\x1b \xff \U0001f642"}};
  std::string text = jsonText(value);
  for (char c : text)
    EXPECT_TRUE(c >= ' ' && c <= '~') << text;
  EXPECT_EQ(nlohmann::json::parse(text)["n\u2028\u00e9\x7f"],
            "\x01\x1b \ufffd \U0001f642");
}

} // namespace
