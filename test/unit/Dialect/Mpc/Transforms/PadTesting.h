//===- PadTesting.h - random graphs for padding -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random functions as text, and the interpreter on a function before and after
// padding.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_PADTESTING_H
#define MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_PADTESTING_H

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <random>

namespace mpc {

/// Writes a random function, op by op.
class GraphText {
protected:
  explicit GraphText(unsigned seed)
      : engine(seed), narrow(draw(2) ? "bf16" : "f16") {}

  struct Named {
    std::string name;
    llvm::SmallVector<int64_t> shape;
  };

  int draw(int bound) { return int(engine() % bound); }
  /// Extents that a pad to 8 makes at most a quarter longer.
  int64_t pick() {
    static constexpr int64_t kExtents[] = {7, 8, 13, 15, 20, 21, 30, 31, 33};
    return kExtents[draw(std::size(kExtents))];
  }

  static std::string typeOf(llvm::ArrayRef<int64_t> shape,
                            llvm::StringRef element = "f32") {
    std::string text = "tensor<";
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + element.str() + ">";
  }

  std::string emit(const std::string &text) {
    std::string name = "%v" + std::to_string(++count);
    body += name + " = mpc." + text + "\n";
    return name;
  }

  /// Values within 0.3 of `around`, exact in every type.
  Named constant(llvm::ArrayRef<int64_t> shape, llvm::StringRef element = "f32",
                 double around = 0) {
    std::uniform_real_distribution<double> values(around - 0.3, around + 0.3);
    std::string text;
    auto append = [&](auto &self, size_t dim) -> void {
      if (dim == shape.size()) {
        text += std::to_string(std::round(values(engine) * 64) / 64);
        return;
      }
      text += "[";
      for (int64_t i = 0; i < shape[dim]; ++i) {
        text += i ? "," : "";
        self(self, dim + 1);
      }
      text += "]";
    };
    append(append, 0);
    return {emit("constant dense<" + text + "> : " + typeOf(shape, element)),
            llvm::SmallVector<int64_t>(shape)};
  }

  Named narrowed(const Named &value) {
    return {emit("cast " + value.name + " : " + typeOf(value.shape) + " to " +
                 typeOf(value.shape, narrow)),
            value.shape};
  }

  std::mt19937 engine;
  std::string narrow, body;
  int count = 0;
};

class PadContractionsTest : public ::testing::Test {
protected:
  PadContractionsTest() {
    context.loadDialect<MpcDialect, exe::ExeDialect, mlir::func::FuncDialect>();
    context.disableMultithreading();
  }

  /// Folds constants and assigns precision, as the stages before padding do.
  mlir::LogicalResult prepare(mlir::ModuleOp module, llvm::StringRef policy) {
    mlir::PassManager manager(&context);
    AssignPrecisionPassOptions assign;
    assign.policy = policy.str();
    manager.addNestedPass<mlir::func::FuncOp>(createFoldConstantsPass());
    manager.addPass(createAssignPrecisionPass(assign));
    return manager.run(module);
  }

  mlir::LogicalResult pad(mlir::ModuleOp module, llvm::StringRef target) {
    mlir::PassManager manager(&context);
    exe::setTarget(module, *TargetInfo::parse(target));
    manager.addNestedPass<mlir::func::FuncOp>(createPadContractionsPass());
    return manager.run(module);
  }

  llvm::SmallVector<reference::Tensor> run(mlir::ModuleOp module,
                                           reference::Rounding rounding) {
    auto func = module.lookupSymbol<mlir::func::FuncOp>("main");
    std::mt19937 engine(3);
    std::normal_distribution<double> normal;
    llvm::SmallVector<reference::Tensor> arguments;
    for (mlir::Type type : func.getArgumentTypes()) {
      reference::Tensor tensor(llvm::cast<mlir::RankedTensorType>(type));
      for (double &value : tensor.floats())
        value = reference::roundTo(normal(engine), tensor.getElementType());
      for (int64_t &value : tensor.ints())
        value = reference::wrapTo(engine() % 1003, tensor.getElementType());
      arguments.push_back(std::move(tensor));
    }
    reference::InterpretOptions options;
    options.rounding = rounding;
    mlir::FailureOr<llvm::SmallVector<reference::Tensor>> results =
        reference::interpret(func, arguments, options);
    EXPECT_TRUE(mlir::succeeded(results));
    return mlir::succeeded(results) ? std::move(*results)
                                    : llvm::SmallVector<reference::Tensor>();
  }

  mlir::MLIRContext context;
};

/// Equal, or both NaN.
inline bool sameElements(const reference::Tensor &a,
                         const reference::Tensor &b) {
  return a.getType() == b.getType() && a.ints() == b.ints() &&
         llvm::all_of(llvm::zip_equal(a.floats(), b.floats()), [](auto pair) {
           auto [left, right] = pair;
           return left == right || (left != left && right != right);
         });
}

} // namespace mpc

#endif // MPC_TEST_UNIT_DIALECT_MPC_TRANSFORMS_PADTESTING_H
