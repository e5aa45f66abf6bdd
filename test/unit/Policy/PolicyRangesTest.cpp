//===- PolicyRangesTest.cpp - single products, values and ranges ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

std::string wrap(StringRef fields) {
  return ("{\"name\": \"mine\", \"extends\": \"mixed_float16\", " + fields +
          "}")
      .str();
}

Policy parse(StringRef fields) {
  return cantFail(Policy::parse(wrap(fields), "mine.json"));
}

std::string errorOf(StringRef fields) {
  Expected<Policy> policy = Policy::parse(wrap(fields), "mine.json");
  return policy ? "" : toString(policy.takeError());
}

TEST(PolicyRangesTest, NamesGiveProductsTheirTypes) {
  Policy policy = parse(R"("products": {"a": "f16", "b": "tf32", "c": "f32"})");
  EXPECT_EQ(policy.productOf({"a"}), PolicyType::Float16);
  EXPECT_EQ(policy.productOf({"x"}), std::nullopt);
  // If names disagree, the widest type applies.
  EXPECT_EQ(policy.productOf({"a", "b"}), PolicyType::TensorFloat32);
  EXPECT_EQ(policy.productOf({"a", "c", "b"}), PolicyType::Float32);
}

TEST(PolicyRangesTest, ABackwardPassHasEntriesOfItsOwn) {
  Policy policy = parse(R"("products": {"a": "f16", "backward:a": "bf16",
                                        "b": "f16"},
                           "values": {"a": "narrow", "backward:a": "float32"})");
  EXPECT_EQ(policy.productOf({"a"}), PolicyType::Float16);
  EXPECT_EQ(policy.productOf({"a"}, /*isBackward=*/true), PolicyType::BFloat16);
  EXPECT_EQ(policy.productOf({"b"}, /*isBackward=*/true), PolicyType::Float16);
  EXPECT_EQ(policy.productOf({"b", "a"}, /*isBackward=*/true),
            PolicyType::BFloat16);
  EXPECT_EQ(policy.storesNarrow({"a"}), true);
  EXPECT_EQ(policy.storesNarrow({"a"}, /*isBackward=*/true), false);
  EXPECT_TRUE(policy.hasBackwardEntries());
  EXPECT_FALSE(parse(R"("products": {"a": "f16"})").hasBackwardEntries());
}

TEST(PolicyRangesTest, NamesGiveValuesTheirStorage) {
  Policy policy = parse(R"("values": {"a": "narrow", "b": "float32"})");
  EXPECT_EQ(policy.storesNarrow({"a"}), true);
  EXPECT_EQ(policy.storesNarrow({"a", "b"}), false);
  EXPECT_EQ(policy.storesNarrow({"x"}), std::nullopt);
}

TEST(PolicyRangesTest, TheLargestRangeHolds) {
  Policy policy = parse(R"("ranges": {"a": {"largest": 3, "largest_sample":
      "s.npz", "least": 1}, "b": {"largest": 5}}, "model": "abc")");
  EXPECT_EQ(policy.rangeOf({"a"})->sample, "s.npz");
  EXPECT_EQ(policy.rangeOf({"a", "b"})->largest, 5);
  EXPECT_EQ(policy.rangeOf({"x"}), nullptr);
  EXPECT_EQ(policy.getModel(), "abc");
}

TEST(PolicyRangesTest, TheDigestDistinguishesThem) {
  std::string plain = parse(R"("default": "high")").digest();
  for (StringRef fields :
       {R"("products": {"a": "f16"})", R"("values": {"a": "narrow"})",
        R"("ranges": {"a": {"largest": 7e4}})"})
    EXPECT_NE(parse(fields).digest(), plain);
  EXPECT_EQ(parse(R"("tuning": {"command": "mpc tune"})").digest(), plain);
}

TEST(PolicyRangesTest, MistakesAreNamed) {
  EXPECT_EQ(errorOf(R"("products": {"a": "int8"})"),
            "mine.json: products.a: expects a type's name; use float32, "
            "float16, bfloat16 or tf32");
  EXPECT_EQ(errorOf(R"("products": 1)"),
            "mine.json: products: expects an object of NAME: TYPE, got number");
  EXPECT_EQ(errorOf(R"("values": {"a": "float16"})"),
            "mine.json: values.a: expects \"float32\" or \"narrow\"");
  for (StringRef range :
       {"1", "{}", R"({"largest": "7"})", R"({"largest": -1})",
        R"({"largest": 1, "largest_sample": 2})"})
    EXPECT_EQ(errorOf(("\"ranges\": {\"a\": " + range + "}").str()),
              "mine.json: ranges.a: expects an object with the number "
              "'largest' and the file 'largest_sample'");
  EXPECT_EQ(errorOf(R"("model": 7)"),
            "mine.json: model: expects the hash of a model");
  EXPECT_EQ(errorOf(R"("tuning": "x")"),
            "mine.json: tuning: expects an object, got string");
  Expected<Policy> keras = Policy::parse(
      R"({"name": "mine", "extends": "keras_mixed_float16",
          "values": {"a": "narrow"}})",
      "mine.json");
  EXPECT_EQ(toString(keras.takeError()),
            "mine.json: values: needs the algorithm minimum_cut");
}

} // namespace
