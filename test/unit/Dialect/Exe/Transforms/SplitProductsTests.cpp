//===- SplitProductsTests.cpp - split library GEMMs are bit-exact ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fusions are run by the reference interpreter before and after the pass, every
// cast included: no bit may differ. The target is one whose launches cost
// nothing, so that small products are split as well.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mpc;
using reference::Tensor;

namespace {

class SplitProducts : public ::testing::Test {
protected:
  SplitProducts() {
    context.loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
  }

  /// The values of all results, concatenated.
  std::vector<double> valuesOf(func::FuncOp function) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    SmallVector<Tensor> arguments;
    for (Type type : function.getArgumentTypes()) {
      Tensor tensor(cast<RankedTensorType>(type));
      for (double &value : tensor.floats())
        value = normal(random);
      tensor.roundToType();
      arguments.push_back(std::move(tensor));
    }
    reference::InterpretOptions options;
    options.rounding = reference::Rounding::Declared;
    FailureOr<SmallVector<Tensor>> results =
        reference::interpret(function, arguments, options);
    EXPECT_TRUE(succeeded(results));
    std::vector<double> values;
    if (succeeded(results))
      for (Tensor &result : *results)
        values.insert(values.end(), result.floats().begin(),
                      result.floats().end());
    return values;
  }

  /// Splits the matmuls of `text`; expects `fusions` kernels and equal values.
  void expectSplit(StringRef text, int64_t fusions) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
        ("module attributes {exe.target = #exe.target<\"cpu:avx512\">} {" +
         text + "}")
            .str(),
        &context);
    ASSERT_TRUE(module);
    auto function = *module->getOps<func::FuncOp>().begin();
    std::vector<double> before = valuesOf(function);
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(createSplitLibraryGemmsPass());
    ASSERT_TRUE(succeeded(manager.run(*module)));
    auto kernels = function.getOps<FusionOp>();
    EXPECT_EQ(std::distance(kernels.begin(), kernels.end()), fusions);
    EXPECT_EQ(valuesOf(function), before);
  }

  MLIRContext context;
};

} // namespace

TEST_F(SplitProducts, SharesANarrowedInput) {
  expectSplit(R"(
func.func @main(%x: tensor<4x16x64xf32>, %w: tensor<64x64xbf16>, %dy: tensor<64x64xbf16>) -> (tensor<4x16x64xf32>, tensor<64x64xf32>) {
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<4x16x64xf32>, %q = %w : tensor<64x64xbf16>) -> tensor<4x16x64xf32> {
    %2 = mpc.cast %p : tensor<4x16x64xf32> to tensor<4x16x64xbf16>
    %3 = mpc.matmul %2, %q : (tensor<4x16x64xbf16>, tensor<64x64xbf16>) -> tensor<4x16x64xf32>
    mpc.yield %3 : tensor<4x16x64xf32>
  }
  %r = mpc.reshape %x : tensor<4x16x64xf32> to tensor<64x64xf32>
  %1 = mpc.fusion kind(contraction) name("dw") (%p = %r : tensor<64x64xf32>, %q = %dy : tensor<64x64xbf16>) -> tensor<64x64xf32> {
    %2 = mpc.cast %p : tensor<64x64xf32> to tensor<64x64xbf16>
    %3 = mpc.matmul %2, %q transpose_lhs : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
    mpc.yield %3 : tensor<64x64xf32>
  }
  return %0, %1 : tensor<4x16x64xf32>, tensor<64x64xf32>
})",
              3);
}

TEST_F(SplitProducts, SplitsMergedMatmuls) {
  expectSplit(R"(
func.func @main(%x: tensor<64x64xbf16>, %v: tensor<64x32xbf16>, %w: tensor<64x32xbf16>, %a: tensor<32xbf16>, %b: tensor<32xbf16>)
    -> (tensor<64x32xbf16>, tensor<64x32xbf16>) {
  %0:2 = mpc.fusion kind(contraction) name("qk") (%p = %x : tensor<64x64xbf16>, %q = %v : tensor<64x32xbf16>,
      %r = %w : tensor<64x32xbf16>, %s = %a : tensor<32xbf16>, %t = %b : tensor<32xbf16>) -> (tensor<64x32xbf16>, tensor<64x32xbf16>) {
    %1 = mpc.concat %q, %r axis(1) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x64xbf16>
    %2 = mpc.matmul %p, %1 : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
    %3 = mpc.concat %s, %t axis(0) : (tensor<32xbf16>, tensor<32xbf16>) -> tensor<64xbf16>
    %4 = mpc.cast %3 : tensor<64xbf16> to tensor<64xf32>
    %5 = mpc.add %2, %4 : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
    %6 = mpc.cast %5 : tensor<64x64xf32> to tensor<64x64xbf16>
    %7 = mpc.slice %6 [0, 0] [64, 32] : tensor<64x64xbf16> to tensor<64x32xbf16>
    %8 = mpc.slice %6 [0, 32] [64, 32] : tensor<64x64xbf16> to tensor<64x32xbf16>
    mpc.yield %7, %8 : tensor<64x32xbf16>, tensor<64x32xbf16>
  }
  return %0#0, %0#1 : tensor<64x32xbf16>, tensor<64x32xbf16>
})",
              4);
}

TEST_F(SplitProducts, StoresAResidualInF32InItsProducer) {
  expectSplit(R"(
func.func @main(%x: tensor<64x64xf32>, %h: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xbf16>) {
  %n = mpc.fusion kind(row) name("norm") (%p = %x : tensor<64x64xf32>) -> tensor<64x64xbf16> {
    %1 = mpc.softmax %p axis(1) : tensor<64x64xf32>
    %2 = mpc.cast %1 : tensor<64x64xf32> to tensor<64x64xbf16>
    mpc.yield %2 : tensor<64x64xbf16>
  }
  %0 = mpc.fusion kind(contraction) name("fc") (%p = %h : tensor<64x64xbf16>, %q = %w : tensor<64x64xbf16>, %r = %n : tensor<64x64xbf16>) -> tensor<64x64xf32> {
    %2 = mpc.matmul %p, %q : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
    %3 = mpc.cast %r : tensor<64x64xbf16> to tensor<64x64xf32>
    %4 = mpc.add %2, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    mpc.yield %4 : tensor<64x64xf32>
  }
  %1 = mpc.fusion kind(contraction) name("fd") (%p = %w : tensor<64x64xbf16>, %q = %h : tensor<64x64xbf16>, %r = %n : tensor<64x64xbf16>) -> tensor<64x64xf32> {
    %2 = mpc.matmul %p, %q : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
    %3 = mpc.cast %r : tensor<64x64xbf16> to tensor<64x64xf32>
    %4 = mpc.add %2, %3 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    mpc.yield %4 : tensor<64x64xf32>
  }
  return %0, %1, %n : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xbf16>
})",
              3);
}
