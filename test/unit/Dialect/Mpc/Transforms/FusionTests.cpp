//===- FusionTests.cpp - fusion preserves values --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGraph.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class FusionTest : public ::testing::Test {
protected:
  FusionTest() {
    context.loadDialect<MpcDialect, exe::ExeDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  OwningOpRef<ModuleOp> parse(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return module;
  }

  void apply(ModuleOp module, std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    if (pass->getOpName() == func::FuncOp::getOperationName())
      manager.addNestedPass<func::FuncOp>(std::move(pass));
    else
      manager.addPass(std::move(pass));
    ASSERT_TRUE(succeeded(manager.run(module)));
  }

  /// Fuses for the GPU and compares every function with itself before, in the
  /// rounding that its types declare.
  void expectSameValues(ModuleOp module, unsigned seed) {
    reference::InterpretOptions options;
    options.rounding = reference::Rounding::Declared;
    OwningOpRef<ModuleOp> before = cast<ModuleOp>(module->clone());
    exe::setTarget(module, gpu);
    PassManager manager(&context);
    addFusionPasses(manager.nest<func::FuncOp>());
    ASSERT_TRUE(succeeded(manager.run(module)));
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal;
    for (auto [oldFunc, newFunc] : llvm::zip_equal(
             before->getOps<func::FuncOp>(), module.getOps<func::FuncOp>())) {
      SmallVector<reference::Tensor> arguments;
      for (Type type : oldFunc.getArgumentTypes()) {
        reference::Tensor tensor(cast<RankedTensorType>(type));
        for (double &value : tensor.floats())
          value = reference::roundTo(normal(engine), tensor.getElementType());
        arguments.push_back(std::move(tensor));
      }
      auto expected = reference::interpret(oldFunc, arguments, options);
      auto actual = reference::interpret(newFunc, arguments, options);
      ASSERT_TRUE(succeeded(expected) && succeeded(actual));
      for (auto [left, right] : llvm::zip_equal(*expected, *actual))
        for (auto [a, b] : llvm::zip_equal(left.floats(), right.floats()))
          ASSERT_TRUE(a == b || (a != a && b != b)) << a << " and " << b;
    }
  }

  MLIRContext context;
  TargetInfo gpu = *TargetInfo::parse("cuda:sm_80");
};

TEST_F(FusionTest, KernelsForAGpuKeepDeclaredValues) {
  AssignPrecisionPassOptions assign;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        parse(test::RandomGraph(seed, /*size=*/16, /*ops=*/15).text());
    assign.policy = seed % 2 ? "mixed_bfloat16" : "mixed_float16";
    exe::setTarget(*module, gpu);
    apply(*module, createAssignPrecisionPass(assign));
    expectSameValues(*module, seed);
  }
}

TEST_F(FusionTest, MovementInsideKernelsKeepsValues) {
  // The module of the lit test: casts, slices, pads, concats and transposes
  // before and after the matmuls.
  auto buffer = llvm::MemoryBuffer::getFile(MPC_PASS_TESTS "/fuse-cuda.mlir");
  ASSERT_TRUE(bool(buffer));
  OwningOpRef<ModuleOp> module = parse((*buffer)->getBuffer());
  expectSameValues(*module, /*seed=*/1);
}

} // namespace
