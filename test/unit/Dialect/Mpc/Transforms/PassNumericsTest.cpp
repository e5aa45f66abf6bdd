//===- PassNumericsTest.cpp - passes preserve values ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the functions of the passes' own lit tests through the interpreter
// before and after each pass: every rewritten pattern must keep its value.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Compare.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mpc;
using reference::Rounding;
using reference::Tensor;

namespace {

/// Random arguments by seed: standard normal floats, full-range int8, other
/// integers 0 or 1.
SmallVector<Tensor> drawArguments(func::FuncOp func) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal;
  SmallVector<Tensor> arguments;
  for (Type type : func.getArgumentTypes()) {
    Tensor tensor(cast<RankedTensorType>(type));
    if (tensor.isFloat())
      for (double &value : tensor.floats())
        value = reference::roundTo(normal(engine), tensor.getElementType());
    else
      for (int64_t &value : tensor.ints())
        value = tensor.getElementType().getIntOrFloatBitWidth() == 8
                    ? reference::wrapTo(engine(), tensor.getElementType())
                    : engine() % 2;
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

class PassNumericsTest : public ::testing::Test {
protected:
  PassNumericsTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  /// The parts of a lit test, as `--split-input-file` cuts it.
  std::vector<OwningOpRef<ModuleOp>> parseTest(StringRef name) {
    std::string path = (MPC_PASS_TESTS "/" + name + ".mlir").str();
    auto buffer = llvm::MemoryBuffer::getFile(path);
    EXPECT_TRUE(bool(buffer)) << path;
    std::vector<OwningOpRef<ModuleOp>> modules;
    if (!buffer)
      return modules;
    SmallVector<StringRef> parts;
    (*buffer)->getBuffer().split(parts, "// -----\n");
    for (StringRef part : parts) {
      modules.push_back(parseSourceString<ModuleOp>(part, &context));
      EXPECT_TRUE(modules.back()) << path;
    }
    return modules;
  }

  SmallVector<Tensor> run(func::FuncOp func, Rounding rounding) {
    reference::InterpretOptions options;
    options.rounding = rounding;
    FailureOr<SmallVector<Tensor>> results =
        reference::interpret(func, drawArguments(func), options);
    EXPECT_TRUE(succeeded(results)) << func.getName().str();
    return succeeded(results) ? std::move(*results) : SmallVector<Tensor>();
  }

  LogicalResult apply(ModuleOp module, std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    if (pass->getOpName() == func::FuncOp::getOperationName())
      manager.addNestedPass<func::FuncOp>(std::move(pass));
    else
      manager.addPass(std::move(pass));
    return manager.run(module);
  }

  /// Checks that `pass` preserves the float64 values of all functions of a test
  /// up to `tolerance`, and that it creates at least `least` ops called `made`.
  void expectSameValues(StringRef test, std::unique_ptr<Pass> (*makePass)(),
                        double tolerance, StringRef made, int least) {
    int count = 0;
    for (OwningOpRef<ModuleOp> &module : parseTest(test)) {
      OwningOpRef<ModuleOp> before = cast<ModuleOp>((*module)->clone());
      ASSERT_TRUE(succeeded(apply(*module, makePass())));
      module->walk([&](Operation *op) {
        count += op->getName().getStringRef() == made;
      });
      for (auto [oldFunc, newFunc] :
           llvm::zip_equal(before->getOps<func::FuncOp>(),
                           module->getOps<func::FuncOp>())) {
        SmallVector<Tensor> expected = run(oldFunc, Rounding::Float64);
        SmallVector<Tensor> actual = run(newFunc, Rounding::Float64);
        ASSERT_EQ(expected.size(), actual.size());
        for (auto [left, right] : llvm::zip_equal(actual, expected))
          EXPECT_LE(reference::rmsRelativeError(left, right), tolerance)
              << oldFunc.getName().str();
      }
    }
    EXPECT_GE(count, least) << test.str();
  }

  MLIRContext context;
};

//===----------------------------------------------------------------------===//
// Simplify
//===----------------------------------------------------------------------===//

// Rounding of double arithmetic, enough for sums of a few hundred terms.
constexpr double kExact = 1e-13;
// The models' constants are those of f32: a relative 2^-22 on the argument.
constexpr double kSingleConstants = 1e-6;

TEST_F(PassNumericsTest, SoftmaxKeepsItsValue) {
  expectSameValues("recognize-softmax", &createRecognizeSoftmaxPass, kExact,
                   "mpc.softmax", 3);
}

TEST_F(PassNumericsTest, LayerNormKeepsItsValue) {
  expectSameValues("recognize-layer-norm", &createRecognizeLayerNormPass,
                   kExact, "mpc.layer_norm", 4);
}

TEST_F(PassNumericsTest, GeluKeepsItsValue) {
  expectSameValues("recognize-gelu", &createRecognizeGeluPass, kSingleConstants,
                   "mpc.gelu", 5);
}

TEST_F(PassNumericsTest, IntegerProductsKeepTheirValue) {
  expectSameValues("recognize-quantized-matmuls",
                   &createRecognizeQuantizedMatmulsPass, kExact,
                   "mpc.reduce_sum", 5);
}

TEST_F(PassNumericsTest, SunkDequantizationKeepsItsValue) {
  expectSameValues("sink-dequantization", &createSinkDequantizationPass, 0,
                   "mpc.max_pool", 3);
}

TEST_F(PassNumericsTest, AttentionKeepsItsValue) {
  expectSameValues("recognize-attention", &createRecognizeAttentionPass, kExact,
                   "mpc.attention", 6);
}

TEST_F(PassNumericsTest, SplitAttentionKeepsItsValue) {
  expectSameValues("split-attention", &createSplitAttentionPass, 0,
                   "mpc.attention", 7);
}

TEST_F(PassNumericsTest, FoldedBatchNormKeepsItsValue) {
  // Filter and bias are rounded once to f32.
  expectSameValues("fold-batch-norm", &createFoldBatchNormPass,
                   kSingleConstants, "mpc.add", 3);
}

TEST_F(PassNumericsTest, FoldedConstantsAreWhatTheProgramComputes) {
  for (OwningOpRef<ModuleOp> &module : parseTest("fold-constants")) {
    OwningOpRef<ModuleOp> before = cast<ModuleOp>((*module)->clone());
    ASSERT_TRUE(succeeded(apply(*module, createFoldConstantsPass())));
    for (auto [oldFunc, newFunc] : llvm::zip_equal(
             before->getOps<func::FuncOp>(), module->getOps<func::FuncOp>()))
      for (auto [left, right] :
           llvm::zip_equal(run(newFunc, Rounding::Declared),
                           run(oldFunc, Rounding::Declared)))
        EXPECT_EQ(reference::rmsRelativeError(left, right), 0)
            << oldFunc.getName().str();
  }
}

//===----------------------------------------------------------------------===//
// Attention: rows without a kept position
//===----------------------------------------------------------------------===//

TEST_F(PassNumericsTest, EmptyRowsOfAttentionKeepTheirMeaning) {
  // All positions dropped: the guarded variant gives zeros, the variant with a
  // finite fill the mean of the values.
  const char *source = R"(
  func.func @guarded(%q: tensor<1x2x4xf32>, %v: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
    %zero = mpc.constant dense<0.0> : tensor<f32>
    %inf = mpc.constant dense<0xFF800000> : tensor<f32>
    %keep = mpc.constant dense<[[true, false], [false, false]]> : tensor<2x2xi1>
    %0 = mpc.matmul %q, %q transpose_rhs : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x2xf32>
    %1 = mpc.select %keep, %0, %inf : (tensor<2x2xi1>, tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
    %2 = mpc.softmax %1 axis(2) : tensor<1x2x2xf32>
    %3 = mpc.is_nan %2 : tensor<1x2x2xf32> -> tensor<1x2x2xi1>
    %4 = mpc.select %3, %zero, %2 : (tensor<1x2x2xi1>, tensor<f32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
    %5 = mpc.matmul %4, %v : (tensor<1x2x2xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
    return %5 : tensor<1x2x4xf32>
  }
  func.func @filled(%q: tensor<1x2x4xf32>, %v: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
    %fill = mpc.constant dense<-3.40282347E+38> : tensor<f32>
    %keep = mpc.constant dense<[[true, false], [false, false]]> : tensor<2x2xi1>
    %0 = mpc.matmul %q, %q transpose_rhs : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x2xf32>
    %1 = mpc.select %keep, %0, %fill : (tensor<2x2xi1>, tensor<1x2x2xf32>, tensor<f32>) -> tensor<1x2x2xf32>
    %2 = mpc.softmax %1 axis(2) : tensor<1x2x2xf32>
    %3 = mpc.matmul %2, %v : (tensor<1x2x2xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
    return %3 : tensor<1x2x4xf32>
  })";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(source, &context);
  ASSERT_TRUE(module);
  OwningOpRef<ModuleOp> before = cast<ModuleOp>((*module)->clone());
  ASSERT_TRUE(succeeded(apply(*module, createRecognizeAttentionPass())));
  int attentions = 0;
  module->walk([&](AttentionOp) { ++attentions; });
  EXPECT_EQ(attentions, 2);
  for (auto [oldFunc, newFunc] : llvm::zip_equal(
           before->getOps<func::FuncOp>(), module->getOps<func::FuncOp>())) {
    SmallVector<Tensor> expected = run(oldFunc, Rounding::Float64);
    SmallVector<Tensor> actual = run(newFunc, Rounding::Float64);
    EXPECT_LE(reference::rmsRelativeError(actual[0], expected[0]), kExact)
        << oldFunc.getName().str();
    // The test means something only where the row is there: zeros or the mean.
    double last = expected[0].floats().back();
    EXPECT_EQ(last == 0, oldFunc.getName() == "guarded");
  }
}

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

TEST_F(PassNumericsTest, NarrowPoliciesRoundAndNoMore) {
  // The error of a policy is less than a few of its ulps, and is not zero: the
  // result was computed in 16 bits.
  struct {
    const char *policy;
    double unit;
  } cases[] = {{"mixed_float16", 0x1p-11},
               {"mixed_bfloat16", 0x1p-8},
               {"float16", 0x1p-11},
               {"bfloat16", 0x1p-8}};
  const char *source = R"(
  func.func @mlp(%x: tensor<32x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<32x64xf32> {
    %0 = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %1 = mpc.add %0, %b : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
    %2 = mpc.relu %1 : tensor<32x64xf32>
    %3 = mpc.matmul %2, %w : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %4 = mpc.add %3, %x : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    return %4 : tensor<32x64xf32>
  })";
  for (auto &[policy, unit] : cases) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(source, &context);
    ASSERT_TRUE(module);
    func::FuncOp func = *module->getOps<func::FuncOp>().begin();
    SmallVector<Tensor> exact = run(func, Rounding::Float64);
    AssignPrecisionPassOptions options;
    options.policy = policy;
    ASSERT_TRUE(succeeded(apply(*module, createAssignPrecisionPass(options))));
    SmallVector<Tensor> rounded = run(func, Rounding::Declared);
    double error = reference::rmsRelativeError(rounded[0], exact[0]);
    EXPECT_GT(error, unit / 16) << policy;
    EXPECT_LT(error, unit * 4) << policy;
  }
}

TEST_F(PassNumericsTest, Float32ChangesNoValue) {
  for (OwningOpRef<ModuleOp> &module : parseTest("assign-precision")) {
    OwningOpRef<ModuleOp> before = cast<ModuleOp>((*module)->clone());
    ASSERT_TRUE(succeeded(apply(*module, createAssignPrecisionPass())));
    for (auto [oldFunc, newFunc] : llvm::zip_equal(
             before->getOps<func::FuncOp>(), module->getOps<func::FuncOp>()))
      for (auto [left, right] :
           llvm::zip_equal(run(newFunc, Rounding::Declared),
                           run(oldFunc, Rounding::Declared)))
        EXPECT_EQ(reference::rmsRelativeError(left, right), 0)
            << oldFunc.getName().str();
  }
}

} // namespace
