//===- FastPathTests.cpp - policies against hardware fast paths -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixUnitReport.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::tool;

namespace {

TargetInfo targetOf(const char *name) {
  std::optional<TargetInfo> target = TargetInfo::parse(name);
  EXPECT_TRUE(target) << name;
  return *target;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(FastPathTest, AFastTypeNeedsNoWord) {
  EXPECT_FALSE(describeSlowType(PolicyType::Float32, targetOf("cpu:avx2")));
  EXPECT_FALSE(describeSlowType(PolicyType::Float16, targetOf("cuda:sm_70")));
  EXPECT_FALSE(describeSlowType(PolicyType::BFloat16, targetOf("cuda:sm_80")));
}

TEST(FastPathTest, AFastTypeHasAUnit) {
  EXPECT_EQ(fastUnit(PolicyType::BFloat16, targetOf("cuda:sm_80")),
            "tensor cores");
  EXPECT_FALSE(fastUnit(PolicyType::BFloat16, targetOf("cuda:sm_75")));
  EXPECT_FALSE(fastUnit(PolicyType::Float32, targetOf("cuda:sm_80")));
  EXPECT_FALSE(fastUnit(PolicyType::Float16, targetOf("cpu:avx2")));
}

TEST(FastPathTest, ACpuSaysThatItWidensAndWhatToUse) {
  for (const char *target : {"cpu:avx2", "cpu:avx512"})
    for (PolicyType type : {PolicyType::Float16, PolicyType::BFloat16}) {
      std::optional<std::string> text =
          describeSlowType(type, targetOf(target));
      ASSERT_TRUE(text) << target;
      EXPECT_TRUE(contains(*text, target)) << *text;
      EXPECT_TRUE(contains(*text, stringify(type).str())) << *text;
      EXPECT_TRUE(contains(*text, "--policy float32")) << *text;
    }
}

TEST(FastPathTest, AComputeModeWithoutAUnitIsFloat32) {
  std::optional<std::string> text =
      describeSlowType(PolicyType::TensorFloat32, targetOf("cpu:avx512"));
  ASSERT_TRUE(text);
  EXPECT_TRUE(contains(*text, "compute in float32")) << *text;
}

TEST(FastPathTest, AGpuNamesTheCapabilityThatItLacks) {
  std::optional<std::string> half =
      describeSlowType(PolicyType::Float16, targetOf("cuda:sm_61"));
  ASSERT_TRUE(half);
  EXPECT_TRUE(contains(*half, "compute capability 7.0 or higher, not 6.1"))
      << *half;
  std::optional<std::string> bfloat =
      describeSlowType(PolicyType::BFloat16, targetOf("cuda:sm_75"));
  ASSERT_TRUE(bfloat);
  EXPECT_TRUE(contains(*bfloat, "compute capability 8.0 or higher, not 7.5"))
      << *bfloat;
  EXPECT_TRUE(contains(*bfloat, "--policy mixed_float16")) << *bfloat;
}

TEST(FastPathTest, TheBestPolicyUsesTheNarrowestUnits) {
  EXPECT_EQ(bestPolicy(targetOf("cuda:sm_80")).policy, "mixed_bfloat16");
  EXPECT_EQ(bestPolicy(targetOf("cuda:sm_75")).policy, "mixed_float16");
  EXPECT_EQ(bestPolicy(targetOf("cuda:sm_61")).policy, "float32");
  EXPECT_EQ(bestPolicy(targetOf("cpu:avx2")).policy, "float32");
  EXPECT_EQ(bestPolicy(targetOf("cpu:avx512")).policy, "float32");
  EXPECT_EQ(bestPolicy(targetOf("cpu:avx512bf16")).policy, "mixed_bfloat16");
  EXPECT_EQ(bestPolicy(targetOf("cpu:amx")).policy, "mixed_bfloat16");
  for (llvm::StringRef name : TargetInfo::names()) {
    PolicyChoice choice = bestPolicy(targetOf(name.str().c_str()));
    EXPECT_TRUE(contains(choice.reason, name.str())) << choice.reason;
    llvm::Expected<Policy> policy = Policy::load(choice.policy);
    ASSERT_TRUE(bool(policy)) << choice.policy;
    // A recommended policy causes no warning itself.
    EXPECT_FALSE(
        describeSlowType(policy->getCompute(), targetOf(name.str().c_str())));
  }
}

TEST(FastPathTest, AutoBecomesAPolicy) {
  Reporter reporter(/*json=*/false, /*quiet=*/true);
  CompileOptions options;
  options.policy = "auto";
  options.target = "cuda:sm_90";
  resolveAutoPolicy(options, reporter);
  EXPECT_EQ(options.policy, "mixed_bfloat16");
  options.policy = "float16";
  resolveAutoPolicy(options, reporter);
  EXPECT_EQ(options.policy, "float16");
}

TEST(FastPathTest, TheWarningComesOncePerReporter) {
  Reporter reporter(/*json=*/false, /*quiet=*/true);
  CompileOptions options;
  options.policy = "mixed_float16";
  options.target = "cpu:avx2";
  reportFastPath(options, reporter, /*isDefault=*/false);
  reportFastPath(options, reporter, /*isDefault=*/false);
  ASSERT_EQ(reporter.warnings().size(), 1u);
  EXPECT_EQ(reporter.warnings().front().stage, kNoFastPath);
  options.policy = "float32";
  reportFastPath(options, reporter, /*isDefault=*/false);
  options.policy = "no-such-policy";
  reportFastPath(options, reporter, /*isDefault=*/false);
  EXPECT_EQ(reporter.warnings().size(), 1u);
}

} // namespace
