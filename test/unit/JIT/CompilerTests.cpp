//===- CompilerTests.cpp - tests of the steps of a compile ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/Compiler.h"

#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace mpc;

namespace {

/// A model file that is gone after the test.
class ModelFile {
public:
  explicit ModelFile(const std::string &text, const char *extension = ".mlir")
      : path(std::filesystem::temp_directory_path() /
             ("mpc-model-" + std::to_string(::getpid()) + extension)) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~ModelFile() { std::filesystem::remove(path); }
  std::string name() const { return path.string(); }

private:
  std::filesystem::path path;
};

/// The failure of importing `text`, or success.
Status importText(const std::string &text, const char *extension = ".mlir") {
  ModelFile file(text, extension);
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create({});
  if (!compiler.ok())
    return compiler.status();
  return (*compiler)->import(file.name()).status();
}

std::string function(const std::string &type, const std::string &body) {
  return "func.func @main(%x: " + type + ") -> " + type + " {\n" + body +
         "\n}\n";
}

} // namespace

TEST(CheckNesting, CountsBracketsOnly) {
  EXPECT_TRUE(checkNesting("func.func @f() -> tensor<4xf32> { }", "f").ok());
  EXPECT_TRUE(
      checkNesting(std::string(300, ')') + "\"" + std::string(1000, '(') + "\"",
                   "f")
          .ok());
  EXPECT_TRUE(checkNesting("// " + std::string(1000, '('), "f").ok());
  EXPECT_TRUE(checkNesting("\"a\\\"" + std::string(1000, '('), "f").ok());
  std::string arrows;
  for (int i = 0; i < 1000; ++i)
    arrows += "() -> ";
  EXPECT_TRUE(checkNesting(arrows, "f").ok());
  // An arrow must not close what a bracket opened.
  std::string hidden;
  for (int i = 0; i < 1000; ++i)
    hidden += "(->";
  EXPECT_FALSE(checkNesting(hidden, "f").ok());
  Status deep = checkNesting("\n\n" + std::string(10000, '['), "m.mlir");
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.toString(), "m.mlir:3: brackets nest deeper than 256 levels");
}

TEST(ImportMlir, RefusalsAreLocated) {
  struct Case {
    std::string text, message;
  };
  std::vector<Case> cases = {
      {"", "has no function @main"},
      {"garbage", "'garbage' is unknown"},
      {std::string(100000, '['), "nest deeper"},
      {function("tensor<4xf32>", "%0 = mpc.no_such_op %x : tensor<4xf32>"),
       "no_such_op"},
      {function("tensor<?xf32>", "return %x : tensor<?xf32>"), "is not static"},
      {function("tensor<1099511627776xf32>",
                "return %x : tensor<1099511627776xf32>"),
       "this machine's memory holds at most"},
      {function("tensor<99999999999999x99999999999xf32>",
                "return %x : tensor<99999999999999x99999999999xf32>"),
       "this machine's memory holds at most"},
      {function("i32", "return %x : i32"), "is not a ranked tensor"},
      {function("tensor<4xcomplex<f32>>", "return %x : tensor<4xcomplex<f32>>"),
       "has an unsupported element type"},
      {function("tensor<4xi7>", "return %x : tensor<4xi7>"),
       "has an unsupported element type"},
      {function("tensor<4xindex>", "return %x : tensor<4xindex>"),
       "has an unsupported element type"},
      {"func.func private @main(tensor<4xf32>)", "has no body"},
      {function(
           "tensor<4xf32>",
           "%0 = arith.addf %x, %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
       "arith"},
      {"module { module @inner { } }", "only functions are allowed"},
  };
  for (const Case &test : cases) {
    Status status = importText(test.text);
    ASSERT_FALSE(status.ok()) << test.text.substr(0, 200);
    EXPECT_NE(status.text().find(test.message), std::string::npos)
        << status.toString();
    EXPECT_NE(status.where().find("mpc-model"), std::string::npos)
        << status.toString();
  }
  EXPECT_FALSE(importText("x", ".pb").ok());
}

TEST(ImportMlir, ResourceOfWrongSizeIsRefused) {
  std::string text =
      function("tensor<1000xf32>",
               "%0 = mpc.constant dense_resource<w> : tensor<1000xf32>\n"
               "return %0 : tensor<1000xf32>") +
      "{-# dialect_resources: { builtin: { w: \"0x040000000102\" } } #-}";
  EXPECT_FALSE(importText(text).ok());
  std::string missing =
      function("tensor<1000xf32>",
               "%0 = mpc.constant dense_resource<w> : tensor<1000xf32>\n"
               "return %0 : tensor<1000xf32>");
  EXPECT_FALSE(importText(missing).ok());
}

/// Most mutants fail to parse; those that parse go on to the plan, where passes
/// see shapes and attributes that no exporter writes.
TEST(ImportMlir, RandomChangesNeverCrash) {
  const std::string text = R"(
func.func @main(%x: tensor<2x6x6x4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %i: tensor<3xi64> {mpc.role = #mpc.role<input>, mpc.name = "i"})
    -> (tensor<3x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %f = mpc.constant dense<0.5> : tensor<8x6x3x3xf32>
  %0 = mpc.conv %x, %f strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])
     : (tensor<2x6x6x4xf32>, tensor<8x6x3x3xf32>) -> tensor<2x8x6x4xf32>
  %1 = mpc.relu %0 : tensor<2x8x6x4xf32>
  %2 = mpc.reshape %1 : tensor<2x8x6x4xf32> to tensor<2x192xf32>
  %w = mpc.constant dense<0.25> : tensor<192x10xf32>
  %3 = mpc.matmul %2, %w : (tensor<2x192xf32>, tensor<192x10xf32>) -> tensor<2x10xf32>
  %4 = mpc.gather %3, %i axis(0) : (tensor<2x10xf32>, tensor<3xi64>) -> tensor<3x10xf32>
  %5 = mpc.softmax %4 axis(1) : tensor<3x10xf32>
  return %5 : tensor<3x10xf32>
})";
  std::mt19937 random(7);
  const std::string letters = "0123456789-<>[](){}xfi,. %:";
  int planned = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string mutant = text;
    for (unsigned changes = i % 2 ? random() % 3 : 0; changes > 0; --changes)
      mutant[random() % mutant.size()] = letters[random() % letters.size()];
    // Replacing a digit by a digit usually keeps the text well-formed.
    for (unsigned changes = random() % 2 + 1; changes > 0; --changes) {
      size_t at = random() % mutant.size();
      while (at < mutant.size() &&
             !isdigit(static_cast<unsigned char>(mutant[at])))
        ++at;
      if (at < mutant.size())
        mutant[at] = static_cast<char>('0' + random() % 10);
    }
    ModelFile file(mutant);
    std::unique_ptr<Compiler> compiler = std::move(*Compiler::create({}));
    Result<Compiler::Module> module = compiler->import(file.name());
    if (!module.ok()) {
      EXPECT_EQ(module.status().code(), StatusCode::InvalidArgument);
      ++refused;
      continue;
    }
    Status status = compiler->runStages(**module, "import", "plan");
    EXPECT_NE(status.code(), StatusCode::Internal) << mutant;
    ++planned;
  }
  EXPECT_GT(planned, 50);
  EXPECT_GT(refused, 500);
}

TEST(DescribeLocation, NamesFileAndOp) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  auto file = mlir::FileLineColLoc::get(&context, "m.onnx", 3, 0);
  mlir::Location node =
      mlir::NameLoc::get(builder.getStringAttr("fc/MatMul"), file);
  EXPECT_EQ(describeLocation(node).where, "m.onnx: fc/MatMul");
  EXPECT_EQ(describeLocation(node).op, "fc/MatMul");
  EXPECT_EQ(describeLocation(file).where, "m.onnx: node 3");
  EXPECT_EQ(
      describeLocation(mlir::FileLineColLoc::get(&context, "m.mlir", 3, 5))
          .where,
      "m.mlir:3:5");
  mlir::Location other =
      mlir::NameLoc::get(builder.getStringAttr("fc/Add"), file);
  auto fused =
      mlir::FusedLoc::get(&context, {builder.getUnknownLoc(), node, other});
  EXPECT_EQ(describeLocation(fused).op, "fc/MatMul");
  EXPECT_EQ(locationNames(fused).size(), 2u);
  EXPECT_EQ(describeLocation(builder.getUnknownLoc()).where, "");
}

TEST(Compiler, RefusesUnknownTargets) {
  CompileOptions options;
  options.target = "cpu:avx9000";
  Result<std::unique_ptr<Compiler>> refused = Compiler::create(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().text().find("is not one of cpu:avx2, cpu:avxvnni"),
            std::string::npos);
  options.target = "cpu:avx512";
  EXPECT_TRUE(Compiler::create(options).ok());
}
