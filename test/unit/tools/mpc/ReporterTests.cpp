//===- ReporterTests.cpp - errors and exit codes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reporter.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::tool;

namespace {

/// Exit code, document and messages of `report` with --json.
struct Printed {
  int code;
  Json document;
  std::string messages;
};

Printed print(const std::function<int(Reporter &)> &report) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Reporter reporter(/*json=*/true, /*quiet=*/true);
  int code = report(reporter);
  return {code, Json::parse(testing::internal::GetCapturedStdout()),
          testing::internal::GetCapturedStderr()};
}

TEST(ReporterTest, AFailedCheckHasACodeOfItsOwn) {
  Printed printed = print([](Reporter &reporter) {
    return reporter.failCheck("difference", "model.onnx: Add",
                              "kernel 'k_Add' computes no value of the graph");
  });
  EXPECT_EQ(printed.code, kCheckFailed);
  EXPECT_EQ(
      printed.document,
      Json::parse(
          R"({"errors": [{"code": "difference", "where": "model.onnx: Add",
        "text": "kernel 'k_Add' computes no value of the graph"}]})"));
  EXPECT_EQ(printed.messages, "error: model.onnx: Add: kernel 'k_Add' computes "
                              "no value of the graph\n");
}

TEST(ReporterTest, WrongInputIsNoFailedCheck) {
  Printed printed = print([](Reporter &reporter) {
    return reporter.fail(
        Status(StatusCode::NotFound, "x.onnx", "does not exist"));
  });
  EXPECT_EQ(printed.code, kBadInput);
  EXPECT_EQ(printed.document["errors"][0]["code"], "not_found");
}

} // namespace
