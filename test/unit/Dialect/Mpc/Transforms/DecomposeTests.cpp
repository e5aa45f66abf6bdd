//===- DecomposeTests.cpp - composite ops equal their parts ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the functions of decompose-update.mlir, decompose-training.mlir and
// decompose-conv-transpose.mlir before and after mpc-decompose.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mpc;
using reference::Rounding;
using reference::Tensor;

namespace {

// Parts have constants of f32 where the whole has float64: a relative 2^-22 on
// an argument.
constexpr double kSingleConstants = 1e-6;

class DecomposeTest : public ::testing::Test {
protected:
  DecomposeTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  /// Floats normal (positive where `positive`), integers from 0 to 2.
  SmallVector<Tensor> drawArguments(func::FuncOp func, bool positive) {
    std::normal_distribution<double> normal;
    SmallVector<Tensor> arguments;
    for (Type type : func.getArgumentTypes()) {
      Tensor tensor(cast<RankedTensorType>(type));
      for (double &value : tensor.floats()) {
        value = normal(engine);
        if (positive)
          value = std::fabs(value);
      }
      for (int64_t &value : tensor.ints())
        value = static_cast<int64_t>(
            engine() % (tensor.getElementType().isInteger(1) ? 2 : 3));
      tensor.roundToType();
      arguments.push_back(std::move(tensor));
    }
    return arguments;
  }

  SmallVector<Tensor> run(func::FuncOp func, ArrayRef<Tensor> arguments,
                          Rounding rounding) {
    reference::InterpretOptions options;
    options.rounding = rounding;
    FailureOr<SmallVector<Tensor>> results =
        reference::interpret(func, arguments, options);
    EXPECT_TRUE(succeeded(results)) << func.getName().str();
    return succeeded(results) ? std::move(*results) : SmallVector<Tensor>();
  }

  /// Decomposes a lit test and calls `check` with each function of it before
  /// and after.
  void forEachFunction(
      StringRef test,
      function_ref<void(func::FuncOp whole, func::FuncOp parts)> check) {
    OwningOpRef<ModuleOp> whole = parseSourceFile<ModuleOp>(
        (MPC_PASS_TESTS "/" + test + ".mlir").str(), &context);
    ASSERT_TRUE(whole);
    OwningOpRef<ModuleOp> parts = cast<ModuleOp>((*whole)->clone());
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(createDecomposePass());
    ASSERT_TRUE(succeeded(manager.run(*parts)));
    for (auto [before, after] : llvm::zip_equal(whole->getOps<func::FuncOp>(),
                                                parts->getOps<func::FuncOp>()))
      check(before, after);
  }

  /// NaNs are equal; zeros differ by sign.
  static void expectSameBits(const Tensor &actual, const Tensor &expected,
                             StringRef name) {
    EXPECT_EQ(actual.ints().vec(), expected.ints().vec()) << name.str();
    for (auto [a, b] : llvm::zip_equal(actual.floats(), expected.floats()))
      EXPECT_TRUE((std::isnan(a) && std::isnan(b)) ||
                  llvm::bit_cast<uint64_t>(a) == llvm::bit_cast<uint64_t>(b))
          << name.str() << ": " << a << " and " << b;
  }

  /// rmsRelativeError; integers must agree.
  static double distance(const Tensor &actual, const Tensor &expected) {
    EXPECT_EQ(actual.ints().vec(), expected.ints().vec());
    return reference::rmsRelativeError(actual, expected);
  }

  MLIRContext context;
  std::mt19937 engine{7};
};

TEST_F(DecomposeTest, TransposedConvolutionsAreTheirPhases) {
  int compared = 0;
  forEachFunction(
      "decompose-conv-transpose", [&](func::FuncOp whole, func::FuncOp parts) {
        SmallVector<Tensor> arguments = drawArguments(whole, false);
        for (auto [left, right] :
             llvm::zip_equal(run(parts, arguments, Rounding::Float64),
                             run(whole, arguments, Rounding::Float64))) {
          EXPECT_LT(distance(left, right), 1e-14) << whole.getName().str();
          ++compared;
        }
      });
  EXPECT_EQ(compared, 9);
}

TEST_F(DecomposeTest, UpdatesAreTheirPartsToTheBit) {
  int compared = 0;
  forEachFunction(
      "decompose-update", [&](func::FuncOp whole, func::FuncOp parts) {
        // Random samples: steps 0 to 2, skipped or not, positive second moment.
        for (int draw = 0; draw < 20; ++draw) {
          SmallVector<Tensor> arguments = drawArguments(whole, draw % 4 != 0);
          for (auto [left, right] :
               llvm::zip_equal(run(parts, arguments, Rounding::Declared),
                               run(whole, arguments, Rounding::Declared))) {
            expectSameBits(left, right, whole.getName());
            ++compared;
          }
          for (auto [left, right] :
               llvm::zip_equal(run(parts, arguments, Rounding::Float64),
                               run(whole, arguments, Rounding::Float64)))
            EXPECT_LE(distance(left, right), kSingleConstants)
                << whole.getName().str();
        }
      });
  EXPECT_GT(compared, 400);
}

TEST_F(DecomposeTest, TrainingOpsKeepTheirValue) {
  forEachFunction("decompose-training", [&](func::FuncOp whole,
                                            func::FuncOp parts) {
    SmallVector<Tensor> arguments = drawArguments(whole, /*positive=*/false);
    SmallVector<Tensor> exact = run(whole, arguments, Rounding::Float64),
                        declared = run(whole, arguments, Rounding::Declared),
                        rounded = run(parts, arguments, Rounding::Declared);
    for (auto [left, right] :
         llvm::zip_equal(run(parts, arguments, Rounding::Float64), exact))
      EXPECT_LE(distance(left, right), kSingleConstants)
          << whole.getName().str();
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_TRUE(reference::compareOutput(rounded[i], exact[i], declared[i],
                                           reference::longestReduction(whole),
                                           /*fatalIntegers=*/true)
                      .ok)
          << whole.getName().str() << " result " << i;
  });
}

TEST_F(DecomposeTest, LossesAndFormsAreTheirPartsToTheBit) {
  // Attention is skipped: it accumulates in another order.
  forEachFunction("decompose-training", [&](func::FuncOp whole,
                                            func::FuncOp parts) {
    if (whole.getName().contains("attention"))
      return;
    SmallVector<Tensor> arguments = drawArguments(whole, /*positive=*/false);
    for (auto [left, right] :
         llvm::zip_equal(run(parts, arguments, Rounding::Declared),
                         run(whole, arguments, Rounding::Declared)))
      expectSameBits(left, right, whole.getName());
  });
}

} // namespace
