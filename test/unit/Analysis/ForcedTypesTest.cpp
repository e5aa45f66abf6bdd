//===- ForcedTypesTest.cpp - types that no policy list decides ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compute modes and accumulator types depend on the kernels of a target. These
// tests use targets that have such kernels.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Two contractions and a softmax, planned under one policy.
CastFusionTarget fusionTarget(StringRef name) {
  return CastFusionTarget(*TargetInfo::parse(name));
}

class ForcedTypesTest : public ::testing::Test {
protected:
  ForcedTypesTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(R"(
      func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %0 = mpc.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("first")
        %1 = mpc.softmax %0 axis(1) : tensor<8x8xf32> loc("soft")
        %2 = mpc.matmul %1, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("second")
        return %2 : tensor<8x8xf32>
      })",
                                         &context);
  }

  /// The plan of the op `name` under `json`; diagnostics are stored in `said`.
  std::optional<OpPlan> plan(StringRef json, StringRef name,
                             const CastFusionTarget &target = {}) {
    llvm::Expected<Policy> policy = Policy::parse(json, "test.json");
    if (!policy) {
      ADD_FAILURE() << llvm::toString(policy.takeError());
      return std::nullopt;
    }
    said.clear();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      said += diagnostic.str();
      return success();
    });
    auto func = *module->getOps<func::FuncOp>().begin();
    FailureOr<PrecisionPlan> made =
        PrecisionPlan::create(func, *policy, target, CastPlacement::MinimumCut);
    if (failed(made))
      return std::nullopt;
    for (Operation &op : func.getBody().front())
      if (opName(&op) == name)
        return made->getPlan(&op);
    return std::nullopt;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string said;
};

TEST_F(ForcedTypesTest, TensorFloat32IsAModeOfContractions) {
  CastFusionTarget rounds;
  rounds.roundsToTensorFloat32 = true;
  StringRef policy = R"({"name": "a", "extends": "tf32"})";
  std::optional<OpPlan> first = plan(policy, "first", rounds);
  ASSERT_TRUE(first);
  EXPECT_EQ(said, "");
  EXPECT_EQ(first->mode, ComputeMode::tf32);
  EXPECT_TRUE(first->compute.isF32());
  EXPECT_TRUE(first->result.isF32());
  std::optional<OpPlan> soft = plan(policy, "soft", rounds);
  ASSERT_TRUE(soft);
  EXPECT_EQ(soft->mode, ComputeMode::native);
}

TEST_F(ForcedTypesTest, ATargetWithoutTensorFloat32SaysSoOnce) {
  ASSERT_TRUE(plan(R"({"name": "a", "extends": "tf32"})", "first"));
  EXPECT_EQ(said, "tf32 is permitted in 2 contractions, which this target "
                  "computes in float32");
}

TEST_F(ForcedTypesTest, TensorFloat32IsThereFromCapability80) {
  EXPECT_FALSE(fusionTarget("cpu:avx512").roundsToTensorFloat32);
  EXPECT_FALSE(fusionTarget("cuda:sm_75").roundsToTensorFloat32);
  EXPECT_TRUE(fusionTarget("cuda:sm_80").roundsToTensorFloat32);
  EXPECT_TRUE(fusionTarget("cuda:sm_90a").roundsToTensorFloat32);
}

TEST_F(ForcedTypesTest, Bf16SplitsNeedATargetThatSupportsThem) {
  StringRef policy = R"({"name": "a", "overrides": {"name:first": "bf16x3"}})";
  EXPECT_FALSE(plan(policy, "first"));
  EXPECT_EQ(said, "override 'name:first=bf16x3' forces bf16x3 on 'first', but "
                  "the target has no kernel for it yet; use tf32 or float32");
  CastFusionTarget splits;
  splits.splitsIntoBFloat16 = true;
  std::optional<OpPlan> first = plan(policy, "first", splits);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->mode, ComputeMode::bf16x3);
  EXPECT_TRUE(first->compute.isF32());
  std::optional<OpPlan> second = plan(policy, "second", splits);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->mode, ComputeMode::native);
}

// Three terms have f32's precision: a GPU's kernels compute f32 where they are
// permitted. Two terms have less.
TEST_F(ForcedTypesTest, ThreeBf16SplitsAreAPermissionOnGpus) {
  CastFusionTarget gpu = fusionTarget("cuda:sm_90");
  std::optional<OpPlan> first = plan(
      R"({"name": "a", "overrides": {"name:first": "bf16x3"}})", "first", gpu);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->mode, ComputeMode::bf16x3);
  EXPECT_TRUE(first->compute.isF32());
  EXPECT_EQ(said, "bf16x3 is permitted in 1 contractions, which kernels of "
                  "this target compute in float32");
  EXPECT_FALSE(plan(R"({"name": "a", "overrides": {"name:first": "bf16x2"}})",
                    "first", gpu));
  EXPECT_EQ(said, "override 'name:first=bf16x2' forces bf16x2 on 'first', but "
                  "the target has no kernel for it yet; use tf32 or float32");
}

// Vectors of a CPU compute f32 where either is permitted; its tiles multiply
// terms.
TEST_F(ForcedTypesTest, Bf16SplitsAreAPermissionOnCpus) {
  for (StringRef type : {"bf16x2", "bf16x3"}) {
    std::string policy =
        (R"({"name": "a", "overrides": {"name:first": ")" + type + R"("}})")
            .str();
    EXPECT_TRUE(plan(policy, "first", fusionTarget("cpu:avx512bf16")));
    EXPECT_EQ(said, type.str() + " is permitted in 1 contractions, which "
                                 "kernels of this target compute in float32");
    std::optional<OpPlan> first =
        plan(policy, "first", fusionTarget("cpu:amx"));
    ASSERT_TRUE(first);
    EXPECT_NE(first->mode, ComputeMode::native);
    EXPECT_EQ(said, "");
  }
}

TEST_F(ForcedTypesTest, NarrowSumsNeedATargetThatHasThem) {
  StringRef policy = R"({"name": "a", "extends": "mixed_float16",
                         "accumulate": "float16"})";
  EXPECT_FALSE(plan(policy, "first"));
  EXPECT_EQ(said, "policy 'a' accumulates in float16, but the target's matmul "
                  "accumulates in float32; set accumulate to float32");
  // An override with the same type requests the same accumulator type.
  EXPECT_FALSE(plan(R"({"name": "a", "accumulate": "float16",
                        "compute": "float16", "default": "high",
                        "overrides": {"name:first": "float16"}})",
                    "first"));
  EXPECT_NE(said, "");
  CastFusionTarget narrow;
  narrow.accumulatesNarrow = true;
  std::optional<OpPlan> first = plan(policy, "first", narrow);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->compute.isF16());
  EXPECT_TRUE(first->result.isF16());
}

/// An override to another type accumulates in f32, despite `accumulate`.
TEST_F(ForcedTypesTest, AnotherTypeSumsInFloat32) {
  CastFusionTarget narrow;
  narrow.accumulatesNarrow = true;
  std::optional<OpPlan> first =
      plan(R"({"name": "a", "extends": "mixed_float16", "accumulate": "float16",
               "overrides": {"name:first": "bfloat16"}})",
           "first", narrow);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->compute.isBF16());
  EXPECT_TRUE(first->result.isF32());
}

TEST_F(ForcedTypesTest, Float64SumsInFloat64) {
  std::optional<OpPlan> first =
      plan(R"({"name": "a", "overrides": {"name:first": "float64"}})", "first");
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->compute.isF64());
  EXPECT_TRUE(first->result.isF64());
}

} // namespace
