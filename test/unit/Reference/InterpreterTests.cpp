//===- InterpreterTests.cpp - functions, fusions, failures ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using InterpreterTest = ReferenceTest;

TEST_F(InterpreterTest, RunsFunctionsWithConstantsAndFusions) {
  SmallVector<std::string> seen;
  InterpretOptions options;
  options.observer = [&](Operation *op, ArrayRef<Tensor> results) {
    seen.push_back(op->getName().stripDialect().str());
    EXPECT_EQ(results.size(), op->getNumResults());
  };
  SmallVector<Tensor> results =
      runFunction(R"mlir(
    func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
      %c = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %0 = mpc.add %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %1 = mpc.fusion kind(elementwise) name("k") (%a = %0 : tensor<2xf32>) -> tensor<2xf32> {
        %2 = mpc.neg %a : tensor<2xf32>
        mpc.yield %2 : tensor<2xf32>
      }
      return %x, %1, %1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    })mlir",
                  {floats("tensor<2xf32>", {10, 20})}, options);
  ASSERT_EQ(results.size(), 3u) << messages;
  expectNear(results[0], {10, 20}, 0);
  expectNear(results[1], {-11, -22}, 0);
  expectNear(results[2], {-11, -22}, 0);
  EXPECT_EQ(seen, (SmallVector<std::string>{"add", "neg", "fusion"}));
}

TEST_F(InterpreterTest, RejectsWrongArguments) {
  const char *text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                     "  return %x : tensor<2xf32>\n}";
  EXPECT_TRUE(runFunction(text, {}).empty());
  EXPECT_NE(messages.find("takes 1 arguments, 0 were given"), std::string::npos)
      << messages;
  EXPECT_TRUE(runFunction(text, {floats("tensor<1xf32>", {1})}).empty());
  EXPECT_NE(messages.find("takes argument 0 of type"), std::string::npos)
      << messages;
}

TEST_F(InterpreterTest, RejectsOpsOfOtherDialects) {
  const char *text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                     "  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
                     "  return %0 : tensor<2xf32>\n}";
  EXPECT_TRUE(runFunction(text, {floats("tensor<2xf32>", {1, 2})}).empty());
  EXPECT_NE(messages.find("is not supported by the reference interpreter"),
            std::string::npos)
      << messages;
}

TEST_F(InterpreterTest, ReportsConstantsWithoutData) {
  // The text names a resource that no file holds.
  module = parseSourceString<ModuleOp>(
      "func.func @f() -> tensor<100xf32> {\n"
      "  %0 = mpc.constant dense_resource<absent> : tensor<100xf32>\n"
      "  return %0 : tensor<100xf32>\n}",
      ParserConfig(&context, /*verifyAfterParse=*/false));
  ASSERT_TRUE(module);
  messages.clear();
  EXPECT_TRUE(
      failed(interpret(module->lookupSymbol<func::FuncOp>("f"), {}, {})));
  EXPECT_NE(messages.find("has no data of the size of its type"),
            std::string::npos)
      << messages;
}

} // namespace
