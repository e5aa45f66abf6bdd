//===- LintTest.cpp - precision lint --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the lint on functions that are written with the types that precision
// assignment would produce. The driver tests cover diagnostics of constants,
// because only the driver has the original values.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Lint.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class LintTest : public ::testing::Test {
protected:
  LintTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  /// The codes of the warnings about `text`, in order.
  std::vector<std::string> lint(StringRef text,
                                StringRef policyName = "float16") {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    func::FuncOp func = *module->getOps<func::FuncOp>().begin();
    llvm::Expected<Policy> policy = Policy::load(policyName);
    EXPECT_TRUE(bool(policy));
    NumericLint lint(func);
    warnings = lint.run(func, *policy);
    std::vector<std::string> codes;
    for (LintWarning &warning : warnings) {
      EXPECT_FALSE(warning.text.empty() || warning.fix.empty() ||
                   warning.value.empty());
      warning.op = nullptr; // the module goes away
      codes.push_back(warning.code);
    }
    return codes;
  }

  using Codes = std::vector<std::string>;
  std::vector<LintWarning> warnings;
  MLIRContext context;
};

TEST_F(LintTest, AnOverflowIsReportedOnceAtItsSource) {
  EXPECT_EQ(lint(R"(func.func @f(%c: tensor<4xi1>) {
    %far = mpc.constant dense<-1.0e9> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %0 = mpc.select %c, %zero, %far : (tensor<4xi1>, tensor<f32>, tensor<f32>) -> tensor<4xf32> loc("mask")
    %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xf16>
    %2 = mpc.neg %1 : tensor<4xf16> loc("reader")
    %3 = mpc.cast %0 : tensor<4xf32> to tensor<4xf16>
    %4 = mpc.abs %3 : tensor<4xf16> loc("other reader")
    %5 = mpc.cast %2 : tensor<4xf16> to tensor<4xf32>
    %6 = mpc.cast %5 : tensor<4xf32> to tensor<4xf16>
    return
  })"),
            Codes{"mask_overflow"});
  EXPECT_EQ(warnings[0].value, "-1e+09");
  EXPECT_EQ(warnings[0].fix, "--set name:reader=float32");
}

TEST_F(LintTest, AValueThatStaysWideIsFine) {
  EXPECT_EQ(lint(R"(func.func @f(%c: tensor<4xi1>, %x: tensor<4xf16>) {
    %far = mpc.constant dense<-1.0e9> : tensor<f32>
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %0 = mpc.select %c, %zero, %far : (tensor<4xi1>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
    %1 = mpc.cast %x : tensor<4xf16> to tensor<4xf32>
    %2 = mpc.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = mpc.softmax %2 axis(0) : tensor<4xf32>
    %4 = mpc.cast %3 : tensor<4xf32> to tensor<4xf16>
    return
  })"),
            Codes{});
}

TEST_F(LintTest, AnUnknownRangeSaysNothing) {
  EXPECT_EQ(lint(R"(func.func @f(%n: tensor<4xi32>, %x: tensor<4xf32>) {
    %one = mpc.constant dense<1.0> : tensor<f32>
    %0 = mpc.cast %n : tensor<4xi32> to tensor<4xf32>
    %1 = mpc.mul %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = mpc.cast %1 : tensor<4xf32> to tensor<4xf16>
    %3 = mpc.exp %x : tensor<4xf32>
    %4 = mpc.cast %3 : tensor<4xf32> to tensor<4xf16>
    return
  })",
                 "float32"),
            Codes{});
}

TEST_F(LintTest, ExponentialsOfClippedValuesHaveAnEnd) {
  auto text = [](StringRef bound) {
    return ("func.func @f(%x: tensor<4xf16>) {\n"
            "  %high = mpc.constant dense<" +
            bound +
            "> : tensor<f16>\n"
            "  %0 = mpc.min %x, %high : (tensor<4xf16>, tensor<f16>) -> "
            "tensor<4xf16>\n"
            "  %1 = mpc.exp %0 : tensor<4xf16> loc(\"exp\")\n"
            "  return\n}")
        .str();
  };
  EXPECT_EQ(lint(text("12.0")), Codes{"range_overflow"}) << "e^12 = 162755";
  EXPECT_EQ(lint(text("11.0")), Codes{}) << "e^11 = 59874";
}

TEST_F(LintTest, SumsCountInTheTypeTheyAccumulateIn) {
  auto text = [](StringRef size, StringRef accumulate) {
    return ("func.func @f(%x: tensor<" + size +
            "xf16>) {\n  %0 = mpc.reduce_mean %x axes([0]) accumulate(" +
            accumulate + ") : tensor<" + size +
            "xf16> -> tensor<f16>\n  return\n}")
        .str();
  };
  EXPECT_EQ(lint(text("2049", "f16")), Codes{"sum_too_long"});
  EXPECT_EQ(warnings[0].value, "2049");
  EXPECT_EQ(lint(text("2048", "f16")), Codes{});
  EXPECT_EQ(lint(text("50000", "f32")), Codes{});
}

TEST_F(LintTest, LowPrecisionCountsAreReportedOnce) {
  EXPECT_EQ(lint(R"(func.func @f(%n: tensor<4xi64>) {
    %one = mpc.constant dense<1.0> : tensor<f16>
    %0 = mpc.cast %n : tensor<4xi64> to tensor<4xf16> loc("frames")
    %1 = mpc.add %0, %one : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16> loc("next")
    return
  })",
                 "float32"),
            Codes{"integer_in_float"});
  EXPECT_EQ(warnings[0].text.find("kept"), std::string::npos);
}

TEST_F(LintTest, NamesAreQuotedForTheShell) {
  EXPECT_EQ(lint(R"mlir(func.func @f(%x: tensor<4xf16>) {
    %high = mpc.constant dense<300.0> : tensor<f16>
    %low = mpc.constant dense<-300.0> : tensor<f16>
    %0 = mpc.clamp %x, %low, %high : (tensor<4xf16>, tensor<f16>, tensor<f16>) -> tensor<4xf16>
    %1 = mpc.mul %0, %0 : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16> loc("it's (squared)")
    %2 = mpc.mul %0, %0 : (tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
    return
  })mlir"),
            (Codes{"range_overflow", "range_overflow"}));
  EXPECT_EQ(warnings[0].fix, "--set 'name:it'\\''s (squared)=float32'");
  EXPECT_EQ(warnings[1].fix, "--set op:mul=float32") << "it has no name";
}

} // namespace
