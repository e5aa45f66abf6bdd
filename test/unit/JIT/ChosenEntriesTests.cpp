//===- ChosenEntriesTests.cpp - tests of results of one entry -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/Compiler.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

/// The imported `body`, which computes %y of type `type` from %x,
/// tensor<1x4x3xf32>, if only one of four entries of dimension 1 is needed; or
/// the diagnostic.
std::string textFor(const std::string &body, const std::string &type) {
  std::string text = R"(
func.func @main(%x: tensor<1x4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> ()" + type + R"( {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
)" + body +
                     "  return %y : " + type + "\n}\n";
  ModelSource model = ModelSource::fromBytes(
      "m.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
  CompileOptions options;
  options.chosen = {{"y", /*axis=*/1, /*count=*/4, "which"}};
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  EXPECT_TRUE(compiler.ok());
  Result<Compiler::Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status().toString();
  EXPECT_TRUE(mlir::succeeded((**module).verify()));
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  (**module).print(stream);
  return printed;
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

TEST(ChosenEntriesTest, TakesTheRowBeforeTheProduct) {
  std::string text = textFor(R"(
  %w = mpc.constant dense<0.5> : tensor<3x7xf32>
  %b = mpc.constant dense<0.25> : tensor<7xf32>
  %scale = mpc.constant dense<2.0> : tensor<1x4x1xf32>
  %wide = mpc.matmul %x, %w : (tensor<1x4x3xf32>, tensor<3x7xf32>) -> tensor<1x4x7xf32>
  %shifted = mpc.add %wide, %b : (tensor<1x4x7xf32>, tensor<7xf32>) -> tensor<1x4x7xf32>
  %y = mpc.mul %shifted, %scale : (tensor<1x4x7xf32>, tensor<1x4x1xf32>) -> tensor<1x4x7xf32>
)",
                             "tensor<1x4x7xf32>");
  expectPart(text, "tensor<1xi64> {mpc.name = \"which\", mpc.role = "
                   "#mpc.role<input>}");
  expectPart(text, "(tensor<1x1x3xf32>, tensor<3x7xf32>) -> tensor<1x1x7xf32>");
  expectPart(text, "(tensor<1x1x7xf32>, tensor<7xf32>) -> tensor<1x1x7xf32>");
  expectPart(text, "(tensor<1x4x1xf32>, tensor<1xi64>) -> tensor<1x1x1xf32>");
}

TEST(ChosenEntriesTest, FollowsRowsThroughReshapes) {
  std::string text = textFor(R"(
  %w = mpc.constant dense<0.5> : tensor<3x7xf32>
  %rows = mpc.reshape %x : tensor<1x4x3xf32> to tensor<4x3xf32>
  %wide = mpc.matmul %rows, %w : (tensor<4x3xf32>, tensor<3x7xf32>) -> tensor<4x7xf32>
  %y = mpc.reshape %wide : tensor<4x7xf32> to tensor<1x4x7xf32>
)",
                             "tensor<1x4x7xf32>");
  expectPart(text, "(tensor<1x3xf32>, tensor<3x7xf32>) -> tensor<1x7xf32>");
}

/// Other users of a value need all of its entries.
TEST(ChosenEntriesTest, LeavesWhatOthersRead) {
  std::string text = textFor(R"(
  %a = mpc.exp %x : tensor<1x4x3xf32>
  %b = mpc.softmax %a axis(1) : tensor<1x4x3xf32>
  %y = mpc.add %a, %b : (tensor<1x4x3xf32>, tensor<1x4x3xf32>) -> tensor<1x4x3xf32>
)",
                             "tensor<1x4x3xf32>");
  expectPart(text, "mpc.exp %arg0 : tensor<1x4x3xf32>");
  expectPart(text, "mpc.softmax %0 axis(1) : tensor<1x4x3xf32>");
  expectPart(text, "(tensor<1x1x3xf32>, tensor<1x1x3xf32>)");
}

TEST(ChosenEntriesTest, RefusesAnotherNumberOfEntries) {
  std::string text = textFor(R"(
  %y = mpc.reduce_sum %x axes([1]) keep_dims : tensor<1x4x3xf32> -> tensor<1x1x3xf32>
)",
                             "tensor<1x1x3xf32>");
  expectPart(text,
             "output 'y' is 'tensor<1x1x3xf32>', but one of the 4 entries of "
             "its dimension 1 must be selected");
}

} // namespace
