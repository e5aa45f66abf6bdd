//===- HtmlReportTests.cpp - HTML reports and their graphs ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphDrawing.h"

#include "../../TemporaryModel.h"
#include "mpc/Support/Files.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::tool;

namespace {

/// A chain of ops, every three of which share a launch.
Json chainOf(size_t count) {
  Json ops = Json::array(), kernels = Json::array(), edges = Json::array();
  for (size_t i = 0; i < count; ++i) {
    ops.push_back({{"name", "op" + std::to_string(i)},
                   {"kind", "relu"},
                   {"launch", i / 3}});
    if (i % 3 == 0)
      kernels.push_back({{"name", "k" + std::to_string(i / 3)}});
    Json from = i == 0 ? Json("x") : Json(i - 1);
    edges.push_back(
        {{"from", from}, {"to", i}, {"type", "f32"}, {"shape", {4}}});
  }
  edges.push_back(
      {{"from", count - 1}, {"to", "y"}, {"type", "f32"}, {"shape", {4}}});
  return {{"ops", ops}, {"kernels", kernels}, {"edges", edges}};
}

/// The drawing of `explanation`; null, and the test is skipped, without dot.
Json drawn(const Json &explanation) {
  Result<Json> drawing = drawGraph(explanation);
  if (drawing.ok())
    return *drawing;
  EXPECT_NE(drawing.status().text().find("needs Graphviz"), std::string::npos)
      << drawing.status().text();
  return Json();
}

TEST(GraphDrawingTest, AnOpIsDrawnBelowItsOperands) {
  // A graph that is taller than five digits of pixels.
  const Json drawing = drawn(chainOf(1800));
  if (drawing.is_null())
    GTEST_SKIP() << "no program dot, of Graphviz";
  EXPECT_EQ(drawing["of"], "ops");
  EXPECT_GT(drawing["height"], 100000);
  const Json &nodes = drawing["nodes"];
  ASSERT_EQ(nodes.size(), 1802u);
  ASSERT_EQ(drawing["edges"].size(), 1801u);
  for (const Json &edge : drawing["edges"]) {
    const Json &from = nodes[edge["from"].get<size_t>()],
               &to = nodes[edge["to"].get<size_t>()];
    EXPECT_GT(to["y"].get<int>(),
              from["y"].get<int>() + from["height"].get<int>());
  }
}

TEST(GraphDrawingTest, ManyOpsAreDrawnByKernels) {
  const Json drawing = drawn(chainOf(5001));
  if (drawing.is_null())
    GTEST_SKIP() << "no program dot, of Graphviz";
  EXPECT_EQ(drawing["of"], "kernels");
  // With one input and one result.
  EXPECT_EQ(drawing["nodes"].size(), 1667u + 2);
  EXPECT_EQ(drawing["edges"].size(), 1666u + 2);
  EXPECT_TRUE(drawing["kernels"].empty());
}

TEST(GraphDrawingTest, NothingIsDrawnAsNothing) {
  const Json drawing = drawn({{"ops", Json::array()},
                              {"kernels", Json::array()},
                              {"edges", Json::array()}});
  if (drawing.is_null())
    GTEST_SKIP() << "no program dot, of Graphviz";
  EXPECT_TRUE(drawing["nodes"].empty());
}

class HtmlReportTest : public TemporaryFolder {};

TEST_F(HtmlReportTest, ADocumentCannotEndItsScript) {
  std::string file = path("report.html");
  Json document = {{"model", "</script><script>alert(1)</script><!--"},
                   {"bytes", "\xff{{data}}"}};
  ASSERT_TRUE(writeHtmlReport(file, "explain", document, Json()).ok());
  Result<std::string> page = readWholeFile(file);
  ASSERT_TRUE(page.ok());
  size_t begin = page->find("id=\"data\">");
  ASSERT_NE(begin, std::string::npos);
  begin += 10;
  std::string text = page->substr(begin, page->find('<', begin) - begin);
  Json data = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(data.is_object()) << text;
  EXPECT_EQ(data["document"]["model"], document["model"]);
  EXPECT_EQ(data["document"]["bytes"], "\xef\xbf\xbd{{data}}");
  EXPECT_EQ(page->compare(begin + text.size(), 9, "</script>"), 0);
}

TEST_F(HtmlReportTest, APageThatCannotBeWrittenIsASentence) {
  Status status =
      writeHtmlReport("/nowhere/report.html", "explain", Json(), Json());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.where().find("/nowhere"), std::string::npos);
}

} // namespace
