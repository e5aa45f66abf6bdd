//===- StridedViewTests.cpp - tensors that are views of an argument -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Plan/StridedView.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
/// The result of a function on `%x` of the given type.
class StridedViewTest : public testing::Test {
protected:
  Value returned(const std::string &argument, const std::string &body,
                 const std::string &result) {
    DialectRegistry registry;
    registry.insert<MpcDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: tensor<" + argument + ">) -> tensor<" + result +
            "> {\n" + body + "\nreturn %y : tensor<" + result + ">\n}\n",
        &context);
    auto function = module->lookupSymbol<func::FuncOp>("f");
    return function.getBody().front().getTerminator()->getOperand(0);
  }
  /// Strides, then the offset; empty where there is no view.
  std::vector<int64_t> stridesOf(const std::string &argument,
                                 const std::string &body,
                                 const std::string &result) {
    std::optional<StridedView> view =
        StridedView::of(returned(argument, body, result));
    if (!view)
      return {};
    std::vector<int64_t> numbers(view->strides.begin(), view->strides.end());
    numbers.push_back(view->offset);
    return numbers;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

using Numbers = std::vector<int64_t>;

TEST_F(StridedViewTest, TransposesAndSlicesOfAPackedProjection) {
  EXPECT_EQ(stridesOf("2x10x12x8xbf16", R"(
  %0 = mpc.slice %x [0, 0, 4, 0] [2, 10, 4, 8] : tensor<2x10x12x8xbf16> to tensor<2x10x4x8xbf16>
  %y = mpc.transpose %0 [0, 2, 1, 3] : tensor<2x10x4x8xbf16> to tensor<2x4x10x8xbf16>)",
                      "2x4x10x8xbf16"),
            (Numbers{960, 8, 96, 1, 32}));
}

TEST_F(StridedViewTest, ReshapesSplitAndJoin) {
  EXPECT_EQ(stridesOf("2x10x96xf32", R"(
  %0 = mpc.reshape %x : tensor<2x10x96xf32> to tensor<2x10x12x8xf32>
  %y = mpc.transpose %0 [0, 2, 1, 3] : tensor<2x10x12x8xf32> to tensor<2x12x10x8xf32>)",
                      "2x12x10x8xf32"),
            (Numbers{960, 8, 96, 1, 0}));
  EXPECT_EQ(stridesOf("2x1x10x96xf32",
                      "%y = mpc.reshape %x : tensor<2x1x10x96xf32> to "
                      "tensor<20x1x96xf32>",
                      "20x1x96xf32"),
            (Numbers{96, 0, 1, 0}));
  // Rows of a slice do not run on.
  EXPECT_EQ(stridesOf("4x10xf32", R"(
  %0 = mpc.slice %x [0, 0] [4, 8] : tensor<4x10xf32> to tensor<4x8xf32>
  %y = mpc.reshape %0 : tensor<4x8xf32> to tensor<32xf32>)",
                      "32xf32"),
            Numbers());
  // But they may be cut.
  EXPECT_EQ(stridesOf("4x10xf32", R"(
  %0 = mpc.slice %x [0, 2] [4, 8] : tensor<4x10xf32> to tensor<4x8xf32>
  %y = mpc.reshape %0 : tensor<4x8xf32> to tensor<4x2x4xf32>)",
                      "4x2x4xf32"),
            (Numbers{10, 4, 1, 2}));
}

TEST_F(StridedViewTest, ComputedTensorsHaveNone) {
  EXPECT_EQ(
      stridesOf("4x8xf32", "%y = mpc.relu %x : tensor<4x8xf32>", "4x8xf32"),
      Numbers());
}

TEST_F(StridedViewTest, OneElementIsAsWideAsALineOnlyWhereItIsRepeated) {
  EXPECT_EQ(
      alignedRunOf(
          returned("8x1xf32", "%y = mpc.relu %x : tensor<8x1xf32>", "8x1xf32"),
          8),
      1);
  EXPECT_EQ(alignedRunOf(returned("8x1xf32", R"(
  %y = mpc.broadcast %x : tensor<8x1xf32> to tensor<8x16xf32>)",
                                  "8x16xf32"),
                         8),
            8);
}

TEST_F(StridedViewTest, AlignedRunsEndWhereAnyOffsetOrStrideDoes) {
  Value tensor = returned("4x64xbf16", R"(
  %y = mpc.slice %x [0, 16] [4, 24] : tensor<4x64xbf16> to tensor<4x24xbf16>)",
                          "4x24xbf16");
  EXPECT_EQ(StridedView::of(tensor)->alignedRun(1, 24, 8), 8);
  EXPECT_EQ(alignedRunOf(tensor, 8), 8);
  tensor = returned("4x60xbf16", R"(
  %y = mpc.slice %x [0, 2] [4, 24] : tensor<4x60xbf16> to tensor<4x24xbf16>)",
                    "4x24xbf16");
  EXPECT_EQ(StridedView::of(tensor)->alignedRun(1, 24, 8), 2);
  EXPECT_EQ(alignedRunOf(tensor, 8), 2);
  // Along another dimension nothing is contiguous.
  EXPECT_EQ(StridedView::of(tensor)->alignedRun(0, 4, 8), 1);
}
