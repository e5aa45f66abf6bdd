//===- HiddenRowsTests.cpp - tests of the decoder's attention window ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/AttentionWindowCheck.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

/// Two tokens after six rows, of which the cache would have the last three.
/// `body` computes %y from the queries, all rows, a mask and positions.
std::string textFor(const std::string &body) {
  std::string text = R"(
func.func @main(%q: tensor<1x1x2x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "q"},
                %new: tensor<1x1x2x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "new"},
                %past: tensor<1x1x6x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "past"},
                %mask: tensor<1x1x1x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "mask"},
                %at: tensor<1x1x2x1xf32> {mpc.role = #mpc.role<input>, mpc.name = "at"})
    -> (tensor<1x1x2x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"},
        tensor<1x1x8x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "present"}) {
  %rows = mpc.concat %past, %new axis(2) : (tensor<1x1x6x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x1x8x4xf32>
)" + body + R"(
  return %y, %rows : tensor<1x1x2x4xf32>, tensor<1x1x8x4xf32>
}
)";
  ModelSource model = ModelSource::fromBytes(
      "m.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
  CompileOptions options;
  options.caches = {{"past", "present", 2}};
  return checkAttentionWindow(model, options, "mask", 3).toString();
}

/// Attention over all rows with `mask`, of type `type`.
std::string attention(const std::string &mask, const std::string &type) {
  return "  %y = mpc.attention %q, %rows, %rows" +
         (mask.empty() ? "" : " mask(" + mask + ")") +
         " scale(0.5) : (tensor<1x1x2x4xf32>, tensor<1x1x8x4xf32>, "
         "tensor<1x1x8x4xf32>" +
         (type.empty() ? "" : ", " + type) + ") -> tensor<1x1x2x4xf32>\n";
}

/// A mask of the rows that both the input mask and these windows of the
/// `first` and `second` token keep.
std::string window(const std::string &first, const std::string &second) {
  return "  %zero = mpc.constant dense<0.0> : tensor<f32>\n"
         "  %fill = mpc.constant dense<-1.0e9> : tensor<f32>\n"
         "  %w = mpc.constant dense<[[" +
         first + "], [" + second +
         "]]> : tensor<2x8xi1>\n"
         "  %kept = mpc.compare gt %mask, %zero : (tensor<1x1x1x8xf32>, "
         "tensor<f32>) -> tensor<1x1x1x8xi1>\n"
         "  %both = mpc.and %kept, %w : (tensor<1x1x1x8xi1>, tensor<2x8xi1>) "
         "-> tensor<1x1x2x8xi1>\n"
         "  %m = mpc.select %both, %zero, %fill : (tensor<1x1x2x8xi1>, "
         "tensor<f32>, tensor<f32>) -> tensor<1x1x2x8xf32>\n" +
         attention("%m", "tensor<1x1x2x8xf32>");
}

TEST(HiddenRowsTest, AWindowOfTheCacheHidesAllBeforeIt) {
  EXPECT_EQ(textFor(window("0, 0, 0, 1, 1, 1, 1, 0", "0, 0, 0, 0, 1, 1, 1, 1")),
            "ok");
}

TEST(HiddenRowsTest, OneRowMoreIsTooMany) {
  std::string text =
      textFor(window("0, 0, 1, 1, 1, 1, 1, 0", "0, 0, 0, 1, 1, 1, 1, 1"));
  EXPECT_NE(
      text.find(
          "attends to tokens further back than the 3 rows of the KV cache"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("needs 4"), std::string::npos) << text;
  // Only the first rows, as in models with attention sinks.
  text = textFor(window("1, 0, 0, 1, 1, 1, 1, 0", "1, 0, 0, 0, 1, 1, 1, 1"));
  EXPECT_TRUE(text.ends_with("sequences cannot be longer than the cache"))
      << text;
}

TEST(HiddenRowsTest, WithoutAMaskAllRowsAreAttended) {
  EXPECT_TRUE(textFor(attention("", "")).ends_with("longer than the cache"));
  EXPECT_TRUE(textFor(attention("%mask", "tensor<1x1x1x8xf32>"))
                  .ends_with("longer than the cache"));
  // One number for all rows.
  EXPECT_TRUE(textFor("  %m = mpc.constant dense<true> : tensor<1x1x2x1xi1>\n" +
                      attention("%m", "tensor<1x1x2x1xi1>"))
                  .ends_with("longer than the cache"));
}

TEST(HiddenRowsTest, WhatIsNotKnownIsRefused) {
  std::string text =
      textFor("  %m = mpc.add %mask, %at : (tensor<1x1x1x8xf32>, "
              "tensor<1x1x2x1xf32>) -> tensor<1x1x2x8xf32>\n" +
              attention("%m", "tensor<1x1x2x8xf32>"));
  EXPECT_NE(text.find("has a mask that depends on input 'at'"),
            std::string::npos)
      << text;
  text = textFor("  %z = mpc.exp %rows : tensor<1x1x8x4xf32>\n"
                 "  %y = mpc.attention %q, %z, %z scale(0.5) : "
                 "(tensor<1x1x2x4xf32>, tensor<1x1x8x4xf32>, "
                 "tensor<1x1x8x4xf32>) -> tensor<1x1x2x4xf32>\n");
  EXPECT_NE(text.find("reads a KV cache other than as keys"), std::string::npos)
      << text;
  text = textFor("  %z = mpc.slice %rows [0, 0, 1, 0] [1, 1, 7, 4] : "
                 "tensor<1x1x8x4xf32> to tensor<1x1x7x4xf32>\n"
                 "  %y = mpc.attention %q, %z, %z scale(0.5) : "
                 "(tensor<1x1x2x4xf32>, tensor<1x1x7x4xf32>, "
                 "tensor<1x1x7x4xf32>) -> tensor<1x1x2x4xf32>\n");
  EXPECT_NE(text.find("reads other rows than those of its KV cache"),
            std::string::npos)
      << text;
}

} // namespace
