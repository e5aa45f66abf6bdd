//===- FusibilityTest.cpp - prediction of cast fusion ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/CastFusion.h"
#include "mpc/Analysis/Fusion/GreedyFusion.h"
#include "mpc/Analysis/OpNames.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

/// One parsed function whose ops are looked up by the name of their location.
class FusibilityTest : public ::testing::Test {
protected:
  FusibilityTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  func::FuncOp parse(StringRef body) {
    module = parseSourceString<ModuleOp>(body, &context);
    EXPECT_TRUE(module);
    return *module->getOps<func::FuncOp>().begin();
  }

  Operation *find(StringRef name) {
    Operation *found = nullptr;
    module->walk([&](Operation *op) {
      if (llvm::is_contained(opNames(op), name))
        found = op;
    });
    EXPECT_TRUE(found) << name.str();
    return found;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// The fusion groups of a function before casts are placed.
struct Kernels : FusionGraph {
  explicit Kernels(func::FuncOp func) : FusionGraph(func.getBody().front()) {
    selectFusionGroups(*this, func.getBody().front(), TargetInfo());
  }
  bool shareKernel(Operation *a, Operation *b) const {
    return groupOf(a) == groupOf(b);
  }
};

TEST_F(FusibilityTest, ContractionsReadLowPrecisionOperandsInPlace) {
  parse(
      R"(func.func @f(%x: tensor<4x4xf32>, %m: tensor<1x4x4xf32>, %q: tensor<1x4x4xf32>) {
    %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("matmul")
    %1 = mpc.attention %q, %q, %q mask(%m) scale(1.0) : (tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32> loc("attention")
    %2 = mpc.softmax %0 axis(1) : tensor<4x4xf32> loc("softmax")
    %3 = mpc.reshape %2 : tensor<4x4xf32> to tensor<16xf32> loc("reshape")
    return
  })");
  CastFusionTarget cpu, loader;
  loader.narrowsContractionOperands = true;
  EXPECT_FALSE(fusesOperandCast(find("matmul"), 0, cpu));
  EXPECT_TRUE(fusesOperandCast(find("matmul"), 0, loader));
  EXPECT_FALSE(fusesOperandCast(find("attention"), 2, cpu));
  EXPECT_TRUE(fusesOperandCast(find("attention"), 3, cpu)) << "the mask";
  EXPECT_TRUE(fusesOperandCast(find("softmax"), 0, cpu));
  EXPECT_FALSE(fusesOperandCast(find("reshape"), 0, cpu));

  EXPECT_TRUE(fusesResultCast(find("matmul"), cpu));
  EXPECT_TRUE(fusesResultCast(find("softmax"), cpu));
  EXPECT_FALSE(fusesResultCast(find("reshape"), cpu)) << "a view has no kernel";
}

TEST_F(FusibilityTest, EpiloguesStayInside) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("matmul")
    %1 = mpc.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("add")
    %2 = mpc.relu %1 : tensor<4x4xf32> loc("relu")
    %3 = mpc.softmax %2 axis(1) : tensor<4x4xf32> loc("softmax")
    %4 = mpc.abs %3 : tensor<4x4xf32> loc("abs")
    return %4 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.isInternal(find("matmul")->getResult(0)));
  EXPECT_TRUE(kernels.isInternal(find("add")->getResult(0)));
  EXPECT_FALSE(kernels.isInternal(find("relu")->getResult(0)))
      << "a row kernel does not take a contraction as its prologue";
  EXPECT_TRUE(kernels.isInternal(find("softmax")->getResult(0)));
  EXPECT_FALSE(kernels.isInternal(find("abs")->getResult(0))) << "an output";
}

TEST_F(FusibilityTest, ProloguesOfRowsStayInside) {
  func::FuncOp func =
      parse(R"(func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.abs %x : tensor<4x4xf32> loc("abs")
    %1 = mpc.softmax %0 axis(1) : tensor<4x4xf32> loc("softmax")
    return %1 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.isInternal(find("abs")->getResult(0)));
  EXPECT_TRUE(kernels.shareKernel(find("abs"), find("softmax")));
}

TEST_F(FusibilityTest, AnAddJoinsOneOfTwoContractions) {
  func::FuncOp func =
      parse(R"(func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("first")
    %1 = mpc.matmul %x, %x transpose_rhs : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("second")
    %2 = mpc.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
    return %2 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.isInternal(find("first")->getResult(0)));
  EXPECT_FALSE(kernels.isInternal(find("second")->getResult(0)));
}

/// A function that repeats `body` `count` times; each copy reads "%P" and
/// defines "%R";
/// "%I" is replaced by the index of the copy.
static std::string repeat(int count, std::string body) {
  std::string text =
      "func.func @f(%r0: tensor<4x4xf32>) -> tensor<4x4xf32> {\n";
  for (int i = 1; i <= count; ++i) {
    std::string block = body;
    for (auto [name, value] :
         {std::pair<std::string, int>{"%P", i - 1}, {"%R", i}, {"%I", i}})
      for (size_t at; (at = block.find(name)) != std::string::npos;)
        block.replace(at, 2,
                      (name == "%I" ? "%i" : "%r") + std::to_string(value));
    text += block;
  }
  return text + "return %r" + std::to_string(count) + " : tensor<4x4xf32>\n}\n";
}

TEST_F(FusibilityTest, WorkPerOpDoesNotGrowWithTheFunction) {
  constexpr int kCount = 4000;
  const char *bodies[] = {
      // A line of loops.
      "%R = mpc.abs %P : tensor<4x4xf32>\n",
      // Sums that all read one value.
      "%R = mpc.add %P, %r0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
      "tensor<4x4xf32>\n",
      // Layers with epilogues.
      "%Im = mpc.matmul %P, %r0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
      "tensor<4x4xf32>\n"
      "%R = mpc.relu %Im : tensor<4x4xf32>\n",
      // A stream to which every block adds.
      "%In = mpc.softmax %P axis(1) : tensor<4x4xf32>\n"
      "%Im = mpc.matmul %In, %r0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
      "tensor<4x4xf32>\n"
      "%R = mpc.add %P, %Im : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
      "tensor<4x4xf32>\n"};
  for (const char *body : bodies) {
    Kernels kernels(parse(repeat(kCount, body)));
    EXPECT_LE(kernels.getVisited(), 16 * kCount) << body;
  }
}

TEST_F(FusibilityTest, ElementwiseReadersShareOneKernel) {
  func::FuncOp func =
      parse(R"(func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.abs %x : tensor<4x4xf32> loc("abs")
    %1 = mpc.exp %0 : tensor<4x4xf32> loc("exp")
    %2 = mpc.mul %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mul")
    %3 = mpc.matmul %2, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("matmul")
    return %3 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.isInternal(find("abs")->getResult(0)));
  EXPECT_TRUE(kernels.isInternal(find("exp")->getResult(0)));
  EXPECT_FALSE(kernels.isInternal(find("mul")->getResult(0)));
}

TEST_F(FusibilityTest, AValueReadTwiceInOneEpilogueStaysInside) {
  func::FuncOp func =
      parse(R"(func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("matmul")
    %1 = mpc.exp %0 : tensor<4x4xf32> loc("exp")
    %2 = mpc.mul %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("mul")
    return %2 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.isInternal(find("matmul")->getResult(0)));
}

TEST_F(FusibilityTest, ATransposedConvolutionHasNoEpilogue) {
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<1x2x4x4xf32>, %w: tensor<2x3x2x2xf32>) -> tensor<1x3x8x8xf32> {
    %0 = mpc.conv_transpose %x, %w strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) output_padding([0, 0]) : (tensor<1x2x4x4xf32>, tensor<2x3x2x2xf32>) -> tensor<1x3x8x8xf32> loc("convolution")
    %1 = mpc.relu %0 : tensor<1x3x8x8xf32> loc("relu")
    return %1 : tensor<1x3x8x8xf32>
  })");
  Kernels kernels(func);
  EXPECT_FALSE(kernels.isInternal(find("convolution")->getResult(0)))
      << "its product is rearranged on the way out";
  EXPECT_FALSE(kernels.shareKernel(find("convolution"), find("relu")));
  EXPECT_EQ(kernels.groupOf(func.getBody().front().getTerminator()), nullptr);
}

TEST_F(FusibilityTest, KernelsNeverFormACycle) {
  // The last add reads the first matmul and, through the second matmul, a
  // value derived from it: it cannot be in the first kernel.
  func::FuncOp func =
      parse(R"(func.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("first")
    %1 = mpc.matmul %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("second")
    %2 = mpc.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
    return %2 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_FALSE(kernels.shareKernel(find("first"), find("add")));
  EXPECT_TRUE(kernels.shareKernel(find("second"), find("add")));
}

TEST_F(FusibilityTest, ANormThatReadsAResidualYieldsIt) {
  // The norm and a later add read the sum: the row kernel computes both.
  func::FuncOp func = parse(
      R"(func.func @f(%x: tensor<4x4xf32>, %g: tensor<4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.add %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("sum")
    %1 = mpc.layer_norm %0, %g axis(1) epsilon(1.0e-5) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("norm")
    %2 = mpc.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("matmul")
    %3 = mpc.add %2, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("add")
    return %3 : tensor<4x4xf32>
  })");
  Kernels kernels(func);
  EXPECT_TRUE(kernels.shareKernel(find("sum"), find("norm")));
  EXPECT_FALSE(kernels.isInternal(find("sum")->getResult(0)));
  EXPECT_TRUE(kernels.shareKernel(find("matmul"), find("add")));
}

//===----------------------------------------------------------------------===//
// OpNames
//===----------------------------------------------------------------------===//

TEST_F(FusibilityTest, NamesComeFromEveryPartOfALocation) {
  parse(R"(func.func @f(%x: tensor<4xf32>) {
    %0 = mpc.abs %x {mpc.layer = "enc/0"} : tensor<4xf32> loc(fused["first"("m.onnx":1:0), "second"])
    %1 = mpc.exp %x : tensor<4xf32> loc("x.mlir":1:2)
    return
  })");
  Operation *abs = find("first");
  EXPECT_EQ(opNames(abs), (SmallVector<StringRef>{"first", "second"}));
  EXPECT_EQ(opName(abs), "first");
  EXPECT_EQ(layerPath(abs), "enc/0");
  Operation *exp = abs->getNextNode();
  EXPECT_TRUE(opNames(exp).empty());
  EXPECT_EQ(opName(exp), "exp");
  EXPECT_EQ(layerPath(exp), "");
  exp->setLoc(fuseLocations({exp, abs}));
  EXPECT_EQ(opName(exp), "first");
}

} // namespace
