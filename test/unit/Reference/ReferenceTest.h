//===- ReferenceTest.h - fixture of the interpreter's tests -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_REFERENCE_REFERENCETEST_H
#define MPC_TEST_UNIT_REFERENCE_REFERENCETEST_H

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace mpc::reference {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ReferenceTest : public testing::Test {
protected:
  ReferenceTest() {
    context.loadDialect<MpcDialect, mlir::func::FuncDialect>();
    // Diagnostics are stored for tests of failures.
    context.getDiagEngine().registerHandler(
        [this](mlir::Diagnostic &diagnostic) {
          messages += diagnostic.str() + "\n";
        });
  }

  mlir::RankedTensorType type(llvm::StringRef text) {
    return llvm::cast<mlir::RankedTensorType>(mlir::parseType(text, &context));
  }

  Tensor floats(llvm::StringRef typeText, llvm::ArrayRef<double> values) {
    Tensor tensor(type(typeText));
    EXPECT_EQ(tensor.floats().size(), values.size());
    llvm::copy(values, tensor.floats().begin());
    return tensor;
  }

  Tensor ints(llvm::StringRef typeText, llvm::ArrayRef<int64_t> values) {
    Tensor tensor(type(typeText));
    EXPECT_EQ(tensor.ints().size(), values.size());
    llvm::copy(values, tensor.ints().begin());
    return tensor;
  }

  /// Normally distributed values, rounded to the type.
  Tensor random(llvm::StringRef typeText) {
    Tensor tensor(type(typeText));
    std::normal_distribution<double> normal;
    for (double &value : tensor.floats())
      value = normal(generator);
    tensor.roundToType();
    return tensor;
  }

  /// Runs a function `@f` from text; empty after a failure.
  llvm::SmallVector<Tensor> runFunction(llvm::StringRef text,
                                        llvm::ArrayRef<Tensor> arguments,
                                        InterpretOptions options = {}) {
    messages.clear();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module) {
      ADD_FAILURE() << messages << text.str();
      return {};
    }
    auto function = module->lookupSymbol<mlir::func::FuncOp>("f");
    mlir::FailureOr<llvm::SmallVector<Tensor>> results =
        interpret(function, arguments, options);
    return mlir::succeeded(results) ? std::move(*results)
                                    : llvm::SmallVector<Tensor>();
  }

  /// Runs one op. `op` is its text with %0, %1 ... for the arguments;
  /// `resultTypes` names its result types.
  llvm::SmallVector<Tensor> run(llvm::StringRef op,
                                llvm::ArrayRef<Tensor> arguments,
                                llvm::ArrayRef<llvm::StringRef> resultTypes,
                                Rounding rounding = Rounding::Float64) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "func.func @f(";
    llvm::interleaveComma(llvm::enumerate(arguments), os, [&](auto argument) {
      os << "%" << argument.index() << ": " << argument.value().getType();
    });
    os << ") -> (";
    llvm::interleaveComma(resultTypes, os);
    os << ") {\n  %r";
    if (resultTypes.size() != 1)
      os << ":" << resultTypes.size();
    os << " = " << op << "\n  return ";
    for (size_t i = 0; i < resultTypes.size(); ++i) {
      os << (i ? ", " : "") << "%r";
      if (resultTypes.size() != 1)
        os << "#" << i;
    }
    os << " : ";
    llvm::interleaveComma(resultTypes, os);
    os << "\n}\n";
    llvm::SmallVector<Tensor> results =
        runFunction(text, arguments, {.rounding = rounding});
    EXPECT_EQ(results.size(), resultTypes.size()) << messages << text;
    return results;
  }

  /// Runs one op of one result and compares its elements; NaN equals NaN.
  void expectFloats(llvm::StringRef op, llvm::ArrayRef<Tensor> arguments,
                    llvm::StringRef resultType, llvm::ArrayRef<double> expected,
                    double tolerance = 0,
                    Rounding rounding = Rounding::Float64) {
    llvm::SmallVector<Tensor> results =
        run(op, arguments, {resultType}, rounding);
    ASSERT_EQ(results.size(), 1u);
    expectNear(results[0], expected, tolerance, op);
  }

  void expectInts(llvm::StringRef op, llvm::ArrayRef<Tensor> arguments,
                  llvm::StringRef resultType,
                  llvm::ArrayRef<int64_t> expected) {
    llvm::SmallVector<Tensor> results = run(op, arguments, {resultType});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(llvm::ArrayRef<int64_t>(results[0].ints()), expected) << op.str();
  }

  /// `tolerance` is relative to max(1, |expected|).
  static void expectNear(const Tensor &actual, llvm::ArrayRef<double> expected,
                         double tolerance, llvm::StringRef what = "") {
    ASSERT_EQ(actual.floats().size(), expected.size()) << what.str();
    for (size_t i = 0; i < expected.size(); ++i) {
      double a = actual.floats()[i], b = expected[i];
      if (a == b || (std::isnan(a) && std::isnan(b)))
        continue;
      EXPECT_LE(std::fabs(a - b), tolerance * std::max(1.0, std::fabs(b)))
          << what.str() << ": element " << i << " is " << a << ", expected "
          << b;
    }
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string messages;
  std::mt19937 generator{7};
};

} // namespace mpc::reference

#endif // MPC_TEST_UNIT_REFERENCE_REFERENCETEST_H
