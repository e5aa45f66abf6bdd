//===- StrictJsonTests.cpp - parsing of untrusted JSON --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/StrictJson.h"

#include <gtest/gtest.h>

using namespace mpc;

static std::string failure(const std::string &text) {
  Result<nlohmann::json> json = parseStrictJson(text, "a.json", "has a value");
  return json.ok() ? json->dump() : json.status().toString();
}

/// A text of arrays that are nested `depth` deep.
static std::string arrays(size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(StrictJson, ReadsValues) {
  std::string text =
      R"({"a":[1,-2,0.5,null,true,"x",[],{}],"b":{"a":{"c":[[3]]}},"c":{}})";
  EXPECT_EQ(failure(text), text);
}

TEST(StrictJson, LocatesErrors) {
  auto expect = [](const std::string &text, const std::string &part) {
    std::string found = failure(text);
    EXPECT_NE(found.find("a.json: has a value" + part), std::string::npos)
        << found;
  };
  expect("[]", " that is not a JSON object");
  expect("3", " that is not a JSON object");
  expect("", " that is not a JSON object: line 1, column 1 ");
  expect("{\n \"a\": ?}", " that is not a JSON object: line 2, column 7 ");
  expect("{} {}", " that is not a JSON object: line 1, column 4 ");
  expect("{\"a\": \"\xff\"}", " that is not a JSON object: line 1, column 8 ");
  expect(R"({"a": [{"b": 1, "b": 2}]})", " with a duplicate name: 'b'");
}

TEST(StrictJson, LimitsNesting) {
  EXPECT_EQ(failure("{\"a\":" + arrays(kMostJsonDepth - 1) + "}"),
            "{\"a\":" + arrays(kMostJsonDepth - 1) + "}");
  EXPECT_NE(failure("{\"a\":" + arrays(kMostJsonDepth) + "}")
                .find("nested deeper than 64 levels"),
            std::string::npos);
  EXPECT_NE(failure("{\"a\":" + arrays(1000000) + "}").find("nested deeper"),
            std::string::npos);
}

// A quadratic parser would take minutes.
TEST(StrictJson, ReadsManyObjects) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i)
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{}";
  Result<nlohmann::json> json = parseStrictJson(text + "}", "", "");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), 200000u);
}
