//===- ExplanationTests.cpp - a report as text and as a document ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace mpc;
using namespace mpc::tool;

namespace {

/// A report whose every name and list is far too long.
Explanation longExplanation() {
  Explanation explanation;
  explanation.model = "m.onnx";
  explanation.policy = "mixed_bfloat16";
  explanation.target = "cpu:avx512";
  std::string name(90, 'n');
  ExplainedOp op;
  op.name = name + "end";
  op.kind = std::string(40, 'k');
  op.compute = "bf16";
  op.accumulate = "f32";
  op.results = op.storage = {"f32"};
  op.rule = "high_result";
  op.override = "name:x=float32";
  op.kernel = name;
  explanation.ops = {op};
  explanation.casts = 1;
  explanation.castBytes = 6;
  explanation.kernels = {{name,
                          "contraction",
                          std::vector<std::string>(20, "fc/MatMul"),
                          12,
                          34,
                          1,
                          {},
                          {}}};
  explanation.castList = {
      {"value", "f32", "bf16", {1}, 6, 0, name, /*standsAlone=*/true, false}};
  explanation.constants = {{"weight", "f16", "", 10, 2, 3, 0.5, 0.25}};
  explanation.padding = {{name, {1, 32, 10, 784}, {1, 32, 16, 784}, 301056}};
  std::string sentence;
  for (int i = 0; i < 40; ++i)
    sentence += "word ";
  explanation.warnings = {{"code", "op", "place", sentence, "1", "do it"}};
  return explanation;
}

TEST(ExplanationTest, TextFitsAHundredColumns) {
  std::istringstream text(explanationToText(longExplanation()));
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines)
    EXPECT_LE(line.size(), 100u) << line;
  EXPECT_GT(lines, 15);
}

TEST(ExplanationTest, TheSummaryComesFirst) {
  std::string text = explanationToText(longExplanation());
  EXPECT_EQ(text.rfind("m.onnx: policy mixed_bfloat16, target cpu:avx512\n", 0),
            0u);
  EXPECT_LT(text.find("1 override applied, 1 warning"),
            text.find("\nwarnings"));
  EXPECT_LT(text.find("\nwarnings"), text.find("op "));
}

TEST(ExplanationTest, LongNamesKeepTheirEnds) {
  EXPECT_NE(explanationToText(longExplanation()).find("..nnnnnnnnnnend "),
            std::string::npos);
}

TEST(ExplanationTest, TheDocumentHoldsEveryList) {
  Json document = explanationToJson(longExplanation());
  EXPECT_EQ(document["ops"][0]["accumulate"], "f32");
  EXPECT_EQ(document["ops"][0]["storage"], Json::array({"f32"}));
  EXPECT_TRUE(document["ops"][0]["reason"].is_null());
  EXPECT_EQ(document["cast_list"][0]["stands_alone"], true);
  EXPECT_EQ(document["constants"][0]["overflowed"], 2);
  EXPECT_EQ(document["padding"][0]["extra_flops"], 301056);
  EXPECT_EQ(document["warnings"][0]["fix"], "do it");
  EXPECT_FALSE(document.contains("why"));
}

TEST(ExplanationTest, AnAccountNamesTheFlags) {
  Explanation explanation = longExplanation();
  explanation.why = ExplainedWhy();
  explanation.why->name = "value";
  explanation.why->type = "bf16";
  explanation.why->steps = {{"the first reason", "op", "place"}};
  explanation.why->becomes = "f32";
  explanation.why->drop = "name:a=bfloat16";
  explanation.why->add = {"name:b=float32"};
  EXPECT_EQ(whyToText(explanation),
            "value: bf16\n"
            "  the first reason\n"
            "without --set 'name:a=bfloat16' and with --set 'name:b=float32' "
            "it becomes f32");
  EXPECT_EQ(explanationToJson(explanation)["why"]["flip"]["sets"],
            Json::array({"name:b=float32"}));
  explanation.why->becomes.clear();
  explanation.why->keeps = "its readers";
  EXPECT_TRUE(explanationToJson(explanation)["why"]["flip"].is_null());
}

} // namespace
