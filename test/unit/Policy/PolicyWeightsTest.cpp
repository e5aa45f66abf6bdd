//===- PolicyWeightsTest.cpp - how a policy stores weights ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Policy/Policy.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

/// The weight formats of the policy whose weights are `json`, or its error.
std::string weights(StringRef json, StringRef more = "") {
  Expected<Policy> policy = Policy::parse(
      ("{\"name\": \"p\", " + more + "\"weights\": " + json + "}").str(),
      "p.json");
  return policy ? policy->getWeights().describe()
                : toString(policy.takeError());
}

TEST(PolicyWeightsTest, AreFloat32WhereNothingIsSaid) {
  Expected<Policy> policy = Policy::load("mixed_bfloat16");
  ASSERT_TRUE(bool(policy));
  EXPECT_FALSE(policy->narrowsWeights());
  EXPECT_EQ(policy->getWeights().describe(), "float32");
}

TEST(PolicyWeightsTest, ReadsNamesAndObjects) {
  EXPECT_EQ(weights("\"bf16\""), "bfloat16");
  EXPECT_EQ(weights("\"int8\""), "int8, one scale per column");
  EXPECT_EQ(weights("\"int16\""), "int16, one scale per column");
  EXPECT_EQ(weights("\"int4\""), "int4, groups of 32");
  EXPECT_EQ(weights(R"({"type": "int4", "group": 128, "zero_point": true})"),
            "int4, groups of 128, zero points");
  EXPECT_EQ(weights("\"f8E4M3FN\""), "float8_e4m3fn, one scale per column");
  EXPECT_EQ(weights(R"({"type": "int8", "clip": false})"),
            "int8, one scale per column, not clipped");
}

TEST(PolicyWeightsTest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(weights("4"),
            "p.json: weights: expects a type's name or an object, got number");
  EXPECT_EQ(weights("{}"), "p.json: weights.type: is missing");
  EXPECT_EQ(weights("\"int3\""),
            "p.json: weights.type: unknown type 'int3'; use float32, float16, "
            "bfloat16, int16, int8, int4 or float8_e4m3fn");
  EXPECT_EQ(weights("\"float8_e5m2\""),
            "p.json: weights.type: type float8_e5m2 has no kernels yet; use "
            "float32, float16, bfloat16, int16, int8, int4 or "
            "float8_e4m3fn");
  EXPECT_EQ(weights("\"tf32\""),
            "p.json: weights.type: type tf32 is not a storage type of "
            "weights; use float32, float16, bfloat16, int16, int8, int4 or "
            "float8_e4m3fn");
  EXPECT_EQ(weights(R"({"type": "int4", "groups": 32})"),
            "p.json: weights.groups: unknown field; known: type, group, "
            "zero_point, clip");
  EXPECT_EQ(weights(R"({"type": "int4", "group": 48})"),
            "p.json: weights.group: expects 32, 64 or 128, got 48");
  EXPECT_EQ(weights(R"({"type": "int4", "clip": 1})"),
            "p.json: weights.clip: expects true or false, got number");
}

/// An option that a type does not support is an error.
TEST(PolicyWeightsTest, RefusesWhatATypeDoesNotHave) {
  EXPECT_EQ(weights(R"({"type": "int8", "group": 32})"),
            "p.json: weights.group: is for int4, the type is int8");
  EXPECT_EQ(weights(R"({"type": "int8", "zero_point": true})"),
            "p.json: weights.zero_point: is for int4, the type is int8");
  EXPECT_EQ(
      weights(R"({"type": "bfloat16", "clip": true})"),
      "p.json: weights.clip: is for int16, int8, int4 and float8_e4m3fn, the "
      "type is bfloat16");
  EXPECT_EQ(weights("\"int8\"", R"("algorithm": "torch_autocast", )"),
            "p.json: weights: are int8 where the algorithm is torch_autocast, "
            "which stores them like the imitated framework; use float32, or "
            "the algorithm minimum_cut");
}

/// Single ops have their own; of names that disagree the widest holds.
TEST(PolicyWeightsTest, HaveNames) {
  auto parse = [](StringRef weights) {
    return Policy::parse(("{\"name\": \"p\", \"extends\": \"float32\", "
                          "\"weights\": " +
                          weights + "}")
                             .str(),
                         "p.json");
  };
  Expected<Policy> policy = parse(
      R"({"names": {"a": "int8", "b": {"type": "int4", "group": 64}, "c": "int16"}})");
  ASSERT_TRUE(bool(policy));
  EXPECT_TRUE(policy->narrowsWeights());
  EXPECT_FALSE(policy->getWeights().isNarrow());
  EXPECT_EQ(policy->weightsOf({"b"})->describe(), "int4, groups of 64");
  EXPECT_EQ(policy->weightsOf({"b", "a"})->type, WeightType::Int8);
  EXPECT_EQ(policy->weightsOf({"b", "c", "a"})->type, WeightType::Int16);
  EXPECT_EQ(policy->weightsOf({"x"}), nullptr);
  Expected<Policy> both =
      parse(R"({"type": "int4", "names": {"a": "float32"}})");
  ASSERT_TRUE(bool(both));
  EXPECT_EQ(both->getWeights().type, WeightType::Int4);
  EXPECT_EQ(both->weightsOf({"a"})->type, WeightType::Float32);
  EXPECT_NE(policy->digest(), both->digest());
  Expected<Policy> wide = parse(R"({"names": {"a": "float32"}})");
  ASSERT_TRUE(bool(wide));
  EXPECT_FALSE(wide->narrowsWeights());

  EXPECT_EQ(weights(R"({"names": 1})"),
            "p.json: weights.names: expects an object of NAME: WEIGHTS, got "
            "number");
  EXPECT_EQ(weights(R"({"names": {"a": {"group": 32}}})"),
            "p.json: weights.names.a.type: is missing");
  EXPECT_EQ(weights(R"({"names": {"a": {"type": "int8", "names": {}}}})"),
            "p.json: weights.names.a.names: unknown field; known: type, group, "
            "zero_point, clip");
  EXPECT_EQ(weights(R"({"group": 32, "names": {}})"),
            "p.json: weights.type: is missing");
  EXPECT_EQ(weights(R"({"names": {"a": "int8"}})",
                    R"("algorithm": "torch_autocast", )"),
            "p.json: weights: are int8 where the algorithm is torch_autocast, "
            "which stores them like the imitated framework; use float32, or "
            "the algorithm minimum_cut");
}

TEST(PolicyWeightsTest, AreInherited) {
  Expected<Policy> policy = Policy::parse(
      R"({"name": "p", "extends": "mixed_float16", "weights": "int4"})",
      "p.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->getCompute(), PolicyType::Float16);
  EXPECT_TRUE(policy->narrowsWeights());
  Expected<Policy> other =
      Policy::parse(R"({"name": "p", "extends": "mixed_float16"})", "p.json");
  ASSERT_TRUE(bool(other));
  EXPECT_NE(policy->digest(), other->digest());
}

TEST(PolicyWeightsTest, CachesHaveATypeOfTheirOwn) {
  Expected<Policy> plain =
      Policy::parse(R"({"name": "p", "extends": "float32"})", "p.json");
  ASSERT_TRUE(bool(plain));
  EXPECT_EQ(plain->getCache(), std::nullopt);
  Expected<Policy> narrow = Policy::parse(
      R"({"name": "p", "extends": "float32", "cache": "bf16"})", "p.json");
  ASSERT_TRUE(bool(narrow));
  EXPECT_EQ(narrow->getCache(), WeightType::BFloat16);
  EXPECT_NE(plain->digest(), narrow->digest());
  auto errorFor = [](StringRef cache) {
    Expected<Policy> policy = Policy::parse(
        ("{\"name\": \"p\", \"cache\": " + cache + "}").str(), "p.json");
    return policy ? std::string() : toString(policy.takeError());
  };
  for (StringRef known : {"\"int8\"", "\"float8_e4m3fn\"", "\"f16\""})
    EXPECT_EQ(errorFor(known), "");
  const std::string kKnown =
      "; use float32, float16, bfloat16, int8 or float8_e4m3fn";
  EXPECT_EQ(errorFor("\"int3\""),
            "p.json: cache: unknown type 'int3'" + kKnown);
  for (const char *other : {"int4", "int16", "tf32", "float64", "float8_e5m2"})
    EXPECT_EQ(errorFor("\"" + std::string(other) + "\""),
              "p.json: cache: KV caches cannot be stored in type '" +
                  std::string(other) + "'" + kKnown);
  EXPECT_EQ(errorFor("8"), "p.json: cache: expects a string, got number");
}

/// Operand types of the matmuls with weights, by the op's name.
TEST(PolicyWeightsTest, KnowMomentsOfWhatTheyAreMultipliedWith) {
  auto parse = [](StringRef moments, StringRef weights) {
    return Policy::parse(("{\"name\": \"p\", \"extends\": \"float32\", "
                          "\"weights\": " +
                          weights + ", \"moments\": " + moments + "}")
                             .str(),
                         "p.json");
  };
  Expected<Policy> policy = parse(R"({"fc": [1, 0, 2.5]})", "\"int8\"");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->momentsOf({"other", "fc"}).vec(),
            (std::vector<float>{1, 0, 2.5}));
  EXPECT_TRUE(policy->momentsOf({"other"}).empty());
  // They apply to quantized weights only.
  Expected<Policy> other = parse(R"({"fc": [1, 0, 2.4]})", "\"int8\"");
  ASSERT_TRUE(bool(other));
  EXPECT_NE(policy->digest(), other->digest());
  Expected<Policy> wide = parse(R"({"fc": [1, 0, 2.4]})", "\"float32\""),
                   same = parse(R"({"fc": [2]})", "\"float32\"");
  ASSERT_TRUE(wide && same);
  EXPECT_EQ(wide->digest(), same->digest());
  EXPECT_EQ(toString(parse("[1]", "\"int8\"").takeError()),
            "p.json: moments: expects an object of NAME: NUMBERS, got array");
  for (StringRef wrong : {"{\"fc\": 1}", "{\"fc\": [-1]}", "{\"fc\": [1e39]}",
                          "{\"fc\": [\"1\"]}", "{\"fc\": {\"a\": 1}}"})
    EXPECT_EQ(toString(parse(wrong, "\"int8\"").takeError()),
              "p.json: moments.fc: expects an array of mean squares, finite "
              "numbers that are not negative");
}

TEST(PolicyWeightsTest, GradientsOnTheWireHaveATypeOfTheirOwn) {
  Policy plain = cantFail(Policy::load("mixed_bfloat16"));
  EXPECT_EQ(plain.getGradientWire(), std::nullopt);
  Expected<Policy> wired = Policy::parse(
      R"({"name": "p", "extends": "mixed_bfloat16", "gradient_wire": "fp16"})",
      "p.json");
  ASSERT_TRUE(bool(wired));
  EXPECT_EQ(wired->getGradientWire(), PolicyType::Float16);
  EXPECT_EQ(wired->getCompute(), PolicyType::BFloat16);
  EXPECT_NE(wired->digest(), plain.digest());
  for (auto [given, said] :
       {std::pair(R"("int8")", "unknown type 'int8'; use float32, float16 or "
                               "bfloat16"),
        std::pair("16", "expects a string, got number")})
    EXPECT_EQ(toString(Policy::parse((R"({"name": "p", "gradient_wire": )" +
                                      Twine(given) + "}")
                                         .str(),
                                     "p.json")
                           .takeError()),
              std::string("p.json: gradient_wire: ") + said);
}

} // namespace
