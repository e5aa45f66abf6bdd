//===- PolicyOperandsTest.cpp - quantized operands of a policy ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

/// Parses a policy that extends mixed_bfloat16 with these operands.
Expected<Policy> withOperands(StringRef operands,
                              StringRef base = "mixed_bfloat16") {
  return Policy::parse(("{\"name\": \"a\", \"extends\": \"" + base +
                        "\", \"operands\": " + operands + "}")
                           .str(),
                       "test.json");
}

std::string errorOf(StringRef operands, StringRef base = "mixed_bfloat16") {
  Expected<Policy> read = withOperands(operands, base);
  return read ? "" : toString(read.takeError());
}

TEST(PolicyOperandsTest, RecipesHaveTheirPublishedTypes) {
  struct Row {
    const char *name;
    OperandScaling scaling;
    OperandType forward, backward;
  };
  for (const Row &row :
       {Row{"mixed_float8", OperandScaling::Delayed, OperandType::E4M3,
            OperandType::E5M2},
        Row{"float8_current", OperandScaling::Current, OperandType::E4M3,
            OperandType::E5M2},
        Row{"float8_block", OperandScaling::Block, OperandType::E4M3,
            OperandType::E4M3},
        Row{"mxfp8", OperandScaling::Mx, OperandType::E4M3, OperandType::E4M3},
        Row{"nvfp4", OperandScaling::NvFp4, OperandType::E2M1,
            OperandType::E2M1}}) {
    Expected<Policy> policy = Policy::load(row.name);
    ASSERT_TRUE(bool(policy)) << row.name;
    const OperandFormat &format = policy->getOperands();
    EXPECT_EQ(format.scaling, row.scaling) << row.name;
    EXPECT_EQ(format.forward, row.forward) << row.name;
    EXPECT_EQ(format.backward, row.backward) << row.name;
    EXPECT_TRUE(policy->quantizesOperands());
    EXPECT_EQ(policy->getCompute(), PolicyType::BFloat16);
  }
}

TEST(PolicyOperandsTest, TypesOfGradientsFollowTheRecipe) {
  Expected<Policy> mx =
      withOperands(R"({"scaling": "mx", "forward": "float6_e2m3fn"})");
  ASSERT_TRUE(bool(mx));
  EXPECT_EQ(mx->getOperands().backward, OperandType::E2M3);
  Expected<Policy> current =
      withOperands(R"({"scaling": "current", "forward": "float8_e5m2"})");
  ASSERT_TRUE(bool(current));
  EXPECT_EQ(current->getOperands().backward, OperandType::E5M2);
}

TEST(PolicyOperandsTest, EveryOptionChangesTheDigest) {
  std::set<std::string> digests;
  for (const char *operands :
       {R"("delayed")", R"("current")", R"("row")", R"("calibrated")",
        R"("block")", R"("mx")", R"("nvfp4")", R"("none")",
        R"({"scaling": "delayed", "margin": 1})",
        R"({"scaling": "delayed", "history": 16})",
        R"({"scaling": "delayed", "amax": "most_recent"})",
        R"({"scaling": "current", "powers_of_two": true})",
        R"({"scaling": "mx", "scale_rounding": "floor"})",
        R"({"scaling": "nvfp4", "hadamard": false})",
        R"({"scaling": "nvfp4", "weight_squares": false})",
        R"({"scaling": "nvfp4", "stochastic": false})",
        R"({"scaling": "nvfp4", "keep_last": 0})",
        R"({"scaling": "nvfp4", "keep_last": 0.5})",
        R"({"scaling": "current", "kinds": ["matmul"]})"}) {
    Expected<Policy> policy = withOperands(operands);
    ASSERT_TRUE(bool(policy)) << operands;
    EXPECT_TRUE(digests.insert(policy->digest()).second) << operands;
  }
}

TEST(PolicyOperandsTest, MistakesNameTheField) {
  EXPECT_EQ(errorOf("8"),
            "test.json: operands: expects a scaling or an object, got number");
  EXPECT_EQ(errorOf(R"("fp8")"),
            "test.json: operands.scaling: expects none, delayed, current, row, "
            "calibrated, block, mx or nvfp4, got \"fp8\"");
  EXPECT_EQ(errorOf(R"({"margin": 1})"),
            "test.json: operands.scaling: expects none, delayed, current, row, "
            "calibrated, block, mx or nvfp4, got nothing; 'operands' replaces "
            "those of the extended policy");
  EXPECT_EQ(errorOf(R"({"scaling": "mx", "margin": 1})"),
            "test.json: operands.margin: is no option of the scaling mx");
  EXPECT_EQ(errorOf(R"({"scaling": "delayed", "history": 0})"),
            "test.json: operands.history: expects an integer from 1 to 65536, "
            "got 0");
  EXPECT_EQ(errorOf(R"({"scaling": "block", "forward": "int8"})"),
            "test.json: operands.forward: expects a type of this scaling, such "
            "as float8_e4m3fn, got \"int8\"");
  EXPECT_EQ(errorOf(R"({"scaling": "mx", "kinds": ["conv"]})"),
            "test.json: operands.kinds: 'conv' is not quantized by the scaling "
            "mx");
  EXPECT_EQ(errorOf(R"({"scaling": "mx", "keep_last": 1})"),
            "test.json: operands.keep_last: expects a share from 0 to below 1, "
            "got 1");
  EXPECT_EQ(errorOf(R"("current")", "mixed_float16"),
            "test.json: operands: are quantized where the compute type is "
            "float16; use bfloat16 or float32");
}

} // namespace
