//===- PolicyLayersTest.cpp - policies per layer --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

/// A Keras policy whose map holds `entries`, as JSON.
Expected<Policy> withLayers(StringRef entries) {
  return Policy::parse((R"({"name": "a", "extends": "keras_mixed_float16",
                            "layers": )" +
                        entries + "}")
                           .str(),
                       "test.json");
}

std::string errorOf(Expected<Policy> policy) {
  return policy ? "" : toString(policy.takeError());
}

/// The name of the policy of a layer, or the message.
std::string policyOf(const Policy &policy, StringRef layer) {
  Expected<const Policy *> found = policy.policyOfLayer(layer);
  return found ? (*found)->getName().str() : toString(found.takeError());
}

TEST(PolicyLayersTest, KerasNamesMeanComputeAndVariable) {
  struct {
    StringRef name;
    PolicyType compute, variable;
  } const cases[] = {
      {"float32", PolicyType::Float32, PolicyType::Float32},
      {"float16", PolicyType::Float16, PolicyType::Float16},
      {"bfloat16", PolicyType::BFloat16, PolicyType::BFloat16},
      {"float64", PolicyType::Float64, PolicyType::Float64},
      {"mixed_float16", PolicyType::Float16, PolicyType::Float32},
      {"mixed_bfloat16", PolicyType::BFloat16, PolicyType::Float32},
  };
  for (const auto &expected : cases) {
    Expected<Policy> policy = Policy::loadKeras(expected.name);
    ASSERT_TRUE(bool(policy)) << expected.name.str();
    EXPECT_EQ(policy->getName(), expected.name);
    EXPECT_EQ(policy->getCompute(), expected.compute);
    EXPECT_EQ(policy->getVariable(), expected.variable);
    EXPECT_EQ(policy->getAlgorithm(), PolicyAlgorithm::KerasLayers);
  }
  for (StringRef name : {"", "half", "f32", "mixed_float32", "mixed_float64",
                         "mixed_float8", "int8_from_mixed_bfloat16"})
    EXPECT_EQ(toString(Policy::loadKeras(name).takeError()),
              ("unknown Keras policy '" + name +
               "'; use float32, float16, bfloat16, float64, mixed_float16 or "
               "mixed_bfloat16")
                  .str());
}

TEST(PolicyLayersTest, ExactKeysBeatRegexesWhichMatchWholePaths) {
  Expected<Policy> policy = withLayers(R"({
      "encoder/.*": "float32", ".*/dense": "bfloat16",
      "encoder/dense": "mixed_bfloat16", "a.b": "float16"})");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policyOf(*policy, "encoder/dense"), "mixed_bfloat16");
  EXPECT_EQ(policyOf(*policy, "encoder/norm"), "float32");
  EXPECT_EQ(policyOf(*policy, "decoder/dense"), "bfloat16");
  EXPECT_EQ(policyOf(*policy, "encoder"), "a");
  EXPECT_EQ(policyOf(*policy, "xencoder/norm"), "a");
  EXPECT_EQ(policyOf(*policy, "axb"), "float16");
}

TEST(PolicyLayersTest, TwoRegexesAreAnErrorThoughTheyAgree) {
  Expected<Policy> policy =
      withLayers(R"({"a/.*": "float32", ".*/b": "float32"})");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policyOf(*policy, "a/b"),
            "layers '.*/b' and 'a/.*' both match layer 'a/b'; make the regular "
            "expressions disjoint or name the layer exactly");
}

TEST(PolicyLayersTest, ABrokenRegexIsStillAnExactKey) {
  Expected<Policy> policy = withLayers(R"({"a(": "float32"})");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policyOf(*policy, "a("), "float32");
  EXPECT_EQ(policyOf(*policy, "b"),
            "layer 'a(' is not a valid regular expression: missing ): a(");
}

TEST(PolicyLayersTest, AutocastIsPerLayer) {
  Expected<Policy> policy =
      withLayers(R"({"a": {"policy": "mixed_bfloat16", "autocast": false}})");
  ASSERT_TRUE(bool(policy));
  Expected<const Policy *> layer = policy->policyOfLayer("a");
  ASSERT_TRUE(bool(layer));
  EXPECT_FALSE((*layer)->getAutocast());
  EXPECT_TRUE(policy->getAutocast());
}

TEST(PolicyLayersTest, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(errorOf(withLayers("[]")),
            "test.json: layers: expects an object of PATH: POLICY, got array");
  EXPECT_EQ(errorOf(withLayers(R"({"a": "broken"})")),
            "test.json: layers.a: unknown Keras policy 'broken'; use float32, "
            "float16, bfloat16, float64, mixed_float16 or mixed_bfloat16");
  EXPECT_EQ(errorOf(withLayers(R"({"a": "float32", "a": "float16"})")),
            "test.json: a: is given twice");
  EXPECT_EQ(errorOf(withLayers(R"({"": "float32"})")),
            "test.json: layers.: a layer's path or regular expression is "
            "empty");
  EXPECT_EQ(errorOf(withLayers(R"({"a": 16})")),
            "test.json: layers.a: expects a policy's name, got number");
  EXPECT_EQ(errorOf(withLayers(R"({"a": {"autocast": false}})")),
            "test.json: layers.a: lacks the field 'policy'");
  EXPECT_EQ(errorOf(withLayers(R"({"a": {"policy": 1}})")),
            "test.json: layers.a.policy: expects a policy's name, got number");
  EXPECT_EQ(
      errorOf(withLayers(R"({"a": {"policy": "float32", "autocast": 1}})")),
      "test.json: layers.a.autocast: expects true or false, got number");
  EXPECT_EQ(
      errorOf(withLayers(R"({"a": {"policy": "float32", "cast": true}})")),
      "test.json: layers.a.cast: unknown field; known: policy, autocast");
  EXPECT_EQ(errorOf(Policy::parse(
                R"({"name": "a", "extends": "torch_autocast_cpu_float16",
                    "layers": {"a": "float32"}})",
                "test.json")),
            "test.json: layers.a: algorithm torch_autocast does not support "
            "layers; use keras_layers or minimum_cut");
  EXPECT_EQ(errorOf(Policy::parse(R"({"name": "a", "autocast": false})",
                                  "test.json")),
            "test.json: autocast: needs the algorithm keras_layers");
}

TEST(PolicyLayersTest, OwnPoliciesMapLayersToBuiltinOnes) {
  Expected<Policy> policy = Policy::parse(
      R"({"name": "a", "extends": "mixed_float16",
          "layers": {"head": "float32", "body/.*": "mixed_bfloat16"}})",
      "test.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policyOf(*policy, "head"), "float32");
  EXPECT_EQ(policyOf(*policy, "body/1"), "mixed_bfloat16");
  EXPECT_EQ(policyOf(*policy, "tail"), "a");
  EXPECT_EQ(
      errorOf(Policy::parse(
          R"({"name": "a", "layers": {"a": "keras_mixed_float16"}})",
          "test.json")),
      "test.json: layers.a: policy 'keras_mixed_float16' uses the "
      "algorithm keras_layers; the policy of a layer must use minimum_cut");
}

TEST(PolicyLayersTest, CopiesShareNoState) {
  Expected<Policy> policy = withLayers(R"({"a": "float32"})");
  ASSERT_TRUE(bool(policy));
  Policy copy = *policy;
  EXPECT_FALSE(bool(copy.addLayerPolicy("b", "float16")));
  EXPECT_EQ(policyOf(copy, "b"), "float16");
  EXPECT_EQ(policyOf(*policy, "b"), "a");
  EXPECT_EQ(toString(copy.addLayerPolicy("b", "float32")),
            "layer 'b' already has the policy 'float16'");
}

} // namespace
