//===- WhyTest.cpp - explanations of a value's type -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each explanation is verified: the change that it suggests is applied, and the
// value must then have the predicted type.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Why.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

constexpr StringRef kBlock = R"(
func.func @main(%x: tensor<64x64xf32> {mpc.name = "x"}, %ids: tensor<64xi64> {mpc.name = "ids"})
    -> (tensor<64x64xf32> {mpc.name = "y"}) {
  %w = mpc.constant dense<0.5> : tensor<64x64xf32> loc("w")
  %0 = mpc.add %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("sum")
  %1 = mpc.matmul %0, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("first")
  %2 = mpc.gelu %1 : tensor<64x64xf32> loc("act")
  %3 = mpc.matmul %2, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("second")
  %4 = mpc.add %3, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("residual")
  %5 = mpc.softmax %4 axis(1) : tensor<64x64xf32> loc("softmax")
  return %5 : tensor<64x64xf32>
})";

class WhyTest : public ::testing::Test {
protected:
  WhyTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kBlock, &context);
    func = *module->getOps<func::FuncOp>().begin();
  }

  Policy policyOf(StringRef name) {
    llvm::Expected<Policy> policy = Policy::load(name);
    EXPECT_TRUE(bool(policy));
    return std::move(*policy);
  }

  WhyAccount explain(const Policy &policy, StringRef name,
                     std::vector<std::string> sets = {}) {
    WhyAnalysis why(func, policy, std::move(sets), target,
                    CastPlacement::MinimumCut);
    Value value = why.find(name);
    EXPECT_TRUE(value) << name.str();
    FailureOr<WhyAccount> account = why.explain(value);
    EXPECT_TRUE(succeeded(account));
    return std::move(*account);
  }

  /// The type of `name` in a plan of its own.
  Type typeOf(Policy policy, StringRef name, ArrayRef<std::string> sets) {
    for (const std::string &set : sets)
      EXPECT_FALSE(bool(policy.addOverride(set))) << set;
    FailureOr<PrecisionPlan> plan =
        PrecisionPlan::create(func, policy, target, CastPlacement::MinimumCut);
    EXPECT_TRUE(succeeded(plan));
    WhyAnalysis why(func, policy, {}, target, CastPlacement::MinimumCut);
    return storedType(*plan, why.find(name));
  }

  static bool says(const WhyAccount &account, StringRef text) {
    return llvm::any_of(account.steps, [&](const WhyStep &step) {
      return StringRef(step.text).contains(text);
    });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp func;
  CastFusionTarget target;
};

TEST_F(WhyTest, TheNamedChangeChangesTheType) {
  int flips = 0;
  for (StringRef policyName :
       {"mixed_bfloat16", "mixed_float16", "bfloat16", "float32"}) {
    Policy policy = policyOf(policyName);
    for (StringRef name :
         {"x", "sum", "first", "act", "second", "residual", "softmax", "y"}) {
      WhyAccount account = explain(policy, name);
      EXPECT_EQ(account.type, typeOf(policy, name, {})) << name.str();
      EXPECT_FALSE(account.steps.empty());
      if (!account.flip)
        continue;
      ++flips;
      EXPECT_NE(account.flip->becomes, account.type) << name.str();
      EXPECT_EQ(account.flip->becomes, typeOf(policy, name, account.flip->add))
          << policyName.str() << " " << name.str();
    }
  }
  EXPECT_GE(flips, 24);
}

TEST_F(WhyTest, NamesTheReaderThatPulls) {
  Policy policy = policyOf("mixed_bfloat16");
  WhyAccount account = explain(policy, "act");
  EXPECT_TRUE(account.type.isBF16());
  ASSERT_TRUE(account.flip);
  ASSERT_EQ(account.flip->add.size(), 1u);
  EXPECT_EQ(account.flip->add.front(), "name:second=float32");
  EXPECT_TRUE(says(account, "'second' (matmul) in bf16: rule 'low'"));
}

TEST_F(WhyTest, AnOverrideIsNamedAndDropped) {
  Policy policy = policyOf("mixed_bfloat16");
  WhyAccount account = explain(policy, "softmax", {"name:softmax=bfloat16"});
  EXPECT_TRUE(account.type.isBF16());
  EXPECT_TRUE(says(account, "override 'name:softmax=bfloat16'"));
  ASSERT_TRUE(account.flip);
  EXPECT_EQ(account.flip->drop, "name:softmax=bfloat16");
  EXPECT_TRUE(account.flip->add.empty());
  EXPECT_TRUE(account.flip->becomes.isF32());
}

TEST_F(WhyTest, IntegersAreOfNoPolicy) {
  Policy policy = policyOf("mixed_bfloat16");
  WhyAccount account = explain(policy, "ids");
  EXPECT_TRUE(account.type.isInteger(64));
  EXPECT_FALSE(account.flip);
  EXPECT_FALSE(account.keeps.empty());
}

TEST_F(WhyTest, NamesAreFoundAndSuggested) {
  Policy policy = policyOf("float32");
  WhyAnalysis why(func, policy, {}, target, CastPlacement::MinimumCut);
  EXPECT_TRUE(isa<BlockArgument>(why.find("x")));
  EXPECT_EQ(opName(why.find("y").getDefiningOp()), "softmax");
  EXPECT_TRUE(why.find("w").getDefiningOp<mpc::ConstantOp>());
  EXPECT_FALSE(why.find("none"));
  EXPECT_EQ(why.nearestNames("sofmax").front(), "softmax");
  EXPECT_EQ(why.nearestNames("residul").front(), "residual");
  EXPECT_TRUE(why.nearestNames("entirely different").empty());
}

TEST_F(WhyTest, AskingChangesNothing) {
  std::string before, after;
  llvm::raw_string_ostream(before) << func;
  Policy policy = policyOf("mixed_bfloat16");
  explain(policy, "residual");
  llvm::raw_string_ostream(after) << func;
  EXPECT_EQ(before, after);
}

} // namespace
