//===- PairedColumnsTest.cpp - recognition of gated matmuls ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class PairedColumnsTest : public ::testing::Test {
protected:
  PairedColumnsTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  /// The paired columns of a matmul of 3 x 24, in blocks of 4, whose first half
  /// is sliced at `first` and reshaped to `shape`.
  std::optional<GatedMatmulColumns>
  pairOf(const std::string &first = "[0, 0, 0, 0] [3, 3, 1, 4]",
         const std::string &slice = "3x3x1x4",
         const std::string &shape = "3x12", const std::string &more = "",
         const std::string &type = "f32") {
    std::string text =
        "func.func @main(%x: tensor<3x5xT>, %w: tensor<5x24xT>) {\n"
        "  %p = mpc.matmul %x, %w : (tensor<3x5xT>, tensor<5x24xT>) -> "
        "tensor<3x24xT>\n"
        "  %b = mpc.reshape %p : tensor<3x24xT> to tensor<3x3x2x4xT>\n"
        "  %s = mpc.slice %b [0, 0, 1, 0] [3, 3, 1, 4] : tensor<3x3x2x4xT> to "
        "tensor<3x3x1x4xT>\n"
        "  %u = mpc.reshape %s : tensor<3x3x1x4xT> to tensor<3x12xT>\n"
        "  %t = mpc.slice %b " +
        first + " : tensor<3x3x2x4xT> to tensor<" + slice +
        "xT>\n"
        "  %g = mpc.reshape %t : tensor<" +
        slice + "xT> to tensor<" + shape + "xT>\n" + more + "  return\n}\n";
    for (size_t at; (at = text.find("xT>")) != std::string::npos;)
      text.replace(at + 1, 1, type);
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    Block &block = module->lookupSymbol<func::FuncOp>("main").getBody().front();
    return GatedMatmulColumns::of(&block.front());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(PairedColumnsTest, HalvesAreFoundInAnyOrder) {
  std::optional<GatedMatmulColumns> pair = pairOf();
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->block, 4);
  auto halfAt = [&](int half) {
    auto reshape = pair->halves[half].getDefiningOp<ReshapeOp>();
    return reshape.getInput().getDefiningOp<SliceOp>().getOffsets()[2];
  };
  EXPECT_EQ(halfAt(0), 0);
  EXPECT_EQ(halfAt(1), 1);
  EXPECT_EQ(pair->views.size(), 5u);
}

TEST_F(PairedColumnsTest, BlocksOfBothComeInTurn) {
  GatedMatmulColumns pair;
  pair.block = 4;
  EXPECT_EQ(pair.placeOf(0, 0), 0);
  EXPECT_EQ(pair.placeOf(3, 0), 3);
  EXPECT_EQ(pair.placeOf(0, 1), 4);
  EXPECT_EQ(pair.placeOf(4, 0), 8);
  EXPECT_EQ(pair.placeOf(11, 1), 23);
}

TEST_F(PairedColumnsTest, OtherReadersMakeItAProductLikeAny) {
  EXPECT_FALSE(pairOf("[0, 0, 1, 0] [3, 3, 1, 4]")) << "one half twice";
  EXPECT_FALSE(pairOf("[0, 0, 0, 0] [3, 2, 1, 4]", "3x2x1x4", "3x8"))
      << "not all blocks";
  EXPECT_FALSE(pairOf("[0, 0, 0, 0] [3, 3, 1, 4]", "3x3x1x4", "12x3"))
      << "rows that are columns";
  EXPECT_FALSE(pairOf("[0, 0, 0, 0] [3, 3, 1, 4]", "3x3x1x4", "3x12",
                      "  %e = mpc.exp %p : tensor<3x24xT>\n"))
      << "the product";
  EXPECT_FALSE(pairOf("[0, 0, 0, 0] [3, 3, 1, 4]", "3x3x1x4", "3x12",
                      "  %e = mpc.exp %b : tensor<3x3x2x4xT>\n"))
      << "the blocks";
  EXPECT_FALSE(pairOf("[0, 0, 0, 0] [3, 3, 1, 4]", "3x3x1x4", "3x12",
                      "  %e = mpc.exp %t : tensor<3x3x1x4xT>\n"))
      << "a slice";
}

TEST_F(PairedColumnsTest, TypesThatKernelsMultiply) {
  auto pairOfType = [&](const char *type) {
    return pairOf("[0, 0, 0, 0] [3, 3, 1, 4]", "3x3x1x4", "3x12", "", type)
        .has_value();
  };
  EXPECT_TRUE(pairOfType("bf16"));
  EXPECT_TRUE(pairOfType("f16"));
  EXPECT_FALSE(pairOfType("f64"));
  EXPECT_FALSE(pairOfType("i32"));
}

TEST_F(PairedColumnsTest, BlocksFitTheTilesOfTheTarget) {
  auto blockOf = [](const char *target) {
    return GatedMatmulColumns::blockFor(TargetInfo::parse(target)->kernels());
  };
  EXPECT_EQ(blockOf("cpu:avx512"), 16);
  EXPECT_EQ(blockOf("cpu:avx2"), 8);
  EXPECT_EQ(blockOf("cuda:sm_90a"), 8);
}

} // namespace
