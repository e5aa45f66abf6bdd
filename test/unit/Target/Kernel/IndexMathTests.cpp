//===- IndexMathTests.cpp - known divisors of index values ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/Kernel/IndexMath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {
/// The divisor that is known of the index that `body` returns; %i and %j are
/// any indices.
int64_t divisorOf(StringRef body) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, scf::SCFDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string text = ("func.func @f(%i: index, %j: index, %c: i1) -> index {\n"
                      "%0 = arith.constant 0 : index\n"
                      "%6 = arith.constant 6 : index\n"
                      "%8 = arith.constant 8 : index\n" +
                      body + "\nreturn %r : index\n}")
                         .str();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return -1;
  auto function = *module->getOps<func::FuncOp>().begin();
  return knownDivisor(
      function.getBody().front().getTerminator()->getOperand(0));
}
} // namespace

TEST(KnownDivisor, OfUnknownAndConstantIndices) {
  EXPECT_EQ(divisorOf("%r = arith.addi %i, %j : index"), 1);
  EXPECT_EQ(divisorOf("%r = arith.constant 12 : index"), 12);
  EXPECT_EQ(divisorOf("%r = arith.constant 0 : index"), 0);
}

TEST(KnownDivisor, OfSumsAndProducts) {
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.muli %a, %6 : index"),
            48);
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.addi %a, %6 : index"),
            2);
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.subi %a, %0 : index"),
            8);
}

TEST(KnownDivisor, OfQuotientsAndRemainders) {
  EXPECT_EQ(divisorOf("%k = arith.constant 4 : index\n"
                      "%a = arith.muli %i, %8 : index\n"
                      "%r = arith.divui %a, %k : index"),
            2);
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.divui %a, %6 : index"),
            1);
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.remui %a, %6 : index"),
            2);
}

TEST(KnownDivisor, OfChoices) {
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%b = arith.muli %j, %6 : index\n"
                      "%r = arith.select %c, %a, %b : index"),
            2);
  EXPECT_EQ(divisorOf("%a = arith.muli %i, %8 : index\n"
                      "%r = arith.minui %a, %6 : index"),
            2);
}

TEST(KnownDivisor, OfLoopSteps) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, scf::SCFDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
func.func @f(%end: index) {
  %first = arith.constant 4 : index
  %step = arith.constant 6 : index
  scf.for %i = %first to %end step %step {
  }
  return
})",
                                                             &context);
  ASSERT_TRUE(module);
  module->walk([](scf::ForOp loop) {
    EXPECT_EQ(knownDivisor(loop.getInductionVar()), 2);
  });
}
