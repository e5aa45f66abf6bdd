//===- SourceOpsTest.cpp - framework ops of mpc ops -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/FrameworkOps.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class SourceOpsTest : public ::testing::Test {
protected:
  SourceOpsTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  func::FuncOp parse(const std::string &arguments, const std::string &body) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn\n}", &context);
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

  Policy policy(StringRef name = "torch_autocast_cuda_float16") {
    llvm::Expected<Policy> loaded = Policy::load(name);
    EXPECT_TRUE(bool(loaded));
    return *loaded;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

const char *const kLinear = R"(
  %w = mpc.constant dense<1.0> : tensor<8x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32> loc("matmul")
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32> loc("add"))";
const char *const kLinearArguments = "%x: tensor<4x8xf32>, %b: tensor<2xf32>";

TEST_F(SourceOpsTest, OneIdIsOneGroup) {
  func::FuncOp func = parse("%x: tensor<4xf32>", R"(
    %0 = mpc.mul %x, %x {mpc.source = #mpc.source<op = "addcmul", id = 7>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul")
    %1 = mpc.relu %x : tensor<4xf32> loc("relu")
    %2 = mpc.add %0, %1 {mpc.source = #mpc.source<op = "addcmul", id = 7>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add"))");
  FrameworkOps sources(func, policy());
  const FrameworkOpGroup *group = sources.getGroup(find("mul"));
  ASSERT_TRUE(group);
  EXPECT_EQ(group, sources.getGroup(find("add")));
  EXPECT_EQ(group->op, "addcmul");
  EXPECT_EQ(group->members.size(), 2u);
  EXPECT_FALSE(group->isResult(find("mul")->getResult(0)));
  EXPECT_TRUE(group->isResult(find("add")->getResult(0)));
  EXPECT_FALSE(group->isExternal(find("add")->getOpOperand(0)));
  EXPECT_TRUE(group->isExternal(find("add")->getOpOperand(1)));
  // relu is between the two ops and comes first: the group ends later.
  ASSERT_EQ(sources.getGroups().size(), 2u);
  EXPECT_EQ(sources.getGroups()[0]->op, "relu");
  EXPECT_EQ(sources.getGroups()[1], group);
}

TEST_F(SourceOpsTest, LayerWithBiasIsLinearForTorch) {
  func::FuncOp func = parse(kLinearArguments, kLinear);
  FrameworkOps sources(func, policy());
  const FrameworkOpGroup *group = sources.getGroup(find("matmul"));
  EXPECT_EQ(group, sources.getGroup(find("add")));
  EXPECT_EQ(group->op, "linear");
}

TEST_F(SourceOpsTest, LayerWithBiasIsTwoOpsElsewhere) {
  func::FuncOp func = parse(kLinearArguments, kLinear);
  FrameworkOps sources(func, policy("mixed_float16"));
  EXPECT_NE(sources.getGroup(find("matmul")), sources.getGroup(find("add")));
}

TEST_F(SourceOpsTest, AnIsolatedOpLeavesItsGroup) {
  func::FuncOp func = parse(kLinearArguments, kLinear);
  FrameworkOps sources(func, policy(),
                       [](Operation *op) { return isa<AddOp>(op); });
  EXPECT_NE(sources.getGroup(find("matmul")), sources.getGroup(find("add")));
  EXPECT_EQ(sources.getGroup(find("matmul"))->op, "matmul");
}

TEST_F(SourceOpsTest, SumsThatAreNoBias) {
  // A residual, a matmul of two activations and a matmul with two users.
  func::FuncOp func = parse("%x: tensor<4x4xf32>, %b: tensor<4xf32>", R"(
    %w = mpc.constant dense<1.0> : tensor<4x4xf32>
    %0 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("m0")
    %1 = mpc.add %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("residual")
    %2 = mpc.relu %1 : tensor<4x4xf32>
    %3 = mpc.matmul %2, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("m1")
    %4 = mpc.add %3, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("mask")
    %5 = mpc.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("m2")
    %6 = mpc.add %5, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32> loc("shared")
    %7 = mpc.relu %5 : tensor<4x4xf32>)");
  FrameworkOps sources(func, policy());
  EXPECT_NE(sources.getGroup(find("m0")), sources.getGroup(find("residual")));
  EXPECT_NE(sources.getGroup(find("m1")), sources.getGroup(find("mask")));
  EXPECT_NE(sources.getGroup(find("m2")), sources.getGroup(find("shared")));
}

TEST_F(SourceOpsTest, NamesFollowRankAndMode) {
  func::FuncOp func = parse("%x: tensor<1x2x8xf32>, %f: tensor<3x2x3xf32>", R"(
    %0 = mpc.conv %x, %f strides([1]) pad([0], [0]) dilations([1]) : (tensor<1x2x8xf32>, tensor<3x2x3xf32>) -> tensor<1x3x6xf32> loc("conv")
    %z = mpc.constant dense<0.0> : tensor<f32>
    %1 = mpc.pad %x, %z low([0, 0, 1]) high([0, 0, 1]) mode(reflect) : (tensor<1x2x8xf32>, tensor<f32>) -> tensor<1x2x10xf32> loc("reflect")
    %2 = mpc.pad %x, %z low([0, 0, 1]) high([0, 0, 1]) : (tensor<1x2x8xf32>, tensor<f32>) -> tensor<1x2x10xf32> loc("constant"))");
  Policy torch = policy();
  EXPECT_EQ(systemOpOf(find("conv"), torch), "conv1d");
  EXPECT_EQ(systemOpOf(find("reflect"), torch), "reflection_pad1d");
  EXPECT_EQ(systemOpOf(find("constant"), torch), "constant_pad_nd");
  EXPECT_EQ(systemOpOf(find("conv"), policy("mixed_float16")), "");
  (void)func;
}

} // namespace
