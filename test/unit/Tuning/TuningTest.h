//===- TuningTest.h - graphs and data for tests of tuning -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TUNING_TUNINGTEST_H
#define MPC_TEST_UNIT_TUNING_TUNINGTEST_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <random>

namespace mpc::test {

class TuningTest : public ::testing::Test {
protected:
  TuningTest() {
    mlir::DialectRegistry registry;
    registry.insert<MpcDialect, mlir::func::FuncDialect>();
    registerVjpModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  mlir::func::FuncOp parse(const std::string &text) {
    modules.push_back(mlir::parseSourceString<mlir::ModuleOp>(text, &context));
    EXPECT_TRUE(modules.back()) << text;
    return *modules.back()->getOps<mlir::func::FuncOp>().begin();
  }

  /// Normal numbers that f32 holds.
  std::vector<reference::Tensor> draw(mlir::func::FuncOp function,
                                      unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<reference::Tensor> arguments;
    for (mlir::Type type : function.getArgumentTypes()) {
      arguments.emplace_back(mlir::cast<mlir::RankedTensorType>(type));
      for (double &value : arguments.back().floats())
        value = normal(random);
    }
    return arguments;
  }

  mlir::MLIRContext context;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

} // namespace mpc::test

#endif // MPC_TEST_UNIT_TUNING_TUNINGTEST_H
