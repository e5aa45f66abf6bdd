//===- PolicyListsTest.cpp - lists and types of policy files --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

Policy parse(StringRef json) {
  Expected<Policy> policy = Policy::parse(json, "test.json");
  if (!policy) {
    ADD_FAILURE() << toString(policy.takeError());
    return Policy();
  }
  return *policy;
}

std::string errorOf(StringRef json) {
  Expected<Policy> policy = Policy::parse(json, "test.json");
  return policy ? "" : toString(policy.takeError());
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

TEST(PolicyListsTest, EveryTypeFieldIsRead) {
  Policy policy = parse(R"({"name": "a", "compute": "half", "store": "fp32",
      "variable": "float16", "output": "bf16", "accumulate": "f16"})");
  EXPECT_EQ(policy.getCompute(), PolicyType::Float16);
  EXPECT_EQ(policy.getStore(), PolicyType::Float32);
  EXPECT_EQ(policy.getVariable(), PolicyType::Float16);
  EXPECT_EQ(policy.getOutput(), PolicyType::BFloat16);
  EXPECT_EQ(policy.getAccumulate(), PolicyType::Float16);
}

TEST(PolicyListsTest, ComputeModesAreStoredInFloat32) {
  Policy policy = parse(R"({"name": "a", "compute": "bf16x3"})");
  EXPECT_EQ(policy.getCompute(), PolicyType::BFloat16x3);
  EXPECT_EQ(policy.getStore(), PolicyType::Float32);
}

TEST(PolicyListsTest, InvalidTypesOfAFieldAreExplained) {
  EXPECT_EQ(errorOf(R"({"name": "a", "compute": "float8_e4m3fn"})"),
            "test.json: compute: type float8_e4m3fn has no kernels yet; use "
            "float32, float16, bfloat16, tf32, bf16x2 or bf16x3");
  EXPECT_EQ(errorOf(R"({"name": "a", "store": "tf32"})"),
            "test.json: store: type tf32 is not a storage type; use float32, "
            "float16 or bfloat16");
  EXPECT_EQ(
      errorOf(R"({"name": "a", "compute": "float64"})"),
      "test.json: compute: type float64 is allowed in overrides only, not "
      "in policies; use float32, float16, bfloat16, tf32, bf16x2 or bf16x3");
  EXPECT_EQ(errorOf(R"({"name": "a", "output": ""})"),
            "test.json: output: unknown type ''; use float32, float16 or "
            "bfloat16");
  EXPECT_EQ(errorOf(R"({"name": "a", "variable": 16})"),
            "test.json: variable: expects a string, got number");
}

TEST(PolicyListsTest, AlgorithmsAreNamed) {
  EXPECT_EQ(parse(R"({"name": "a"})").getAlgorithm(),
            PolicyAlgorithm::MinimumCut);
  EXPECT_EQ(
      parse(R"({"name": "a", "algorithm": "torch_autocast"})").getAlgorithm(),
      PolicyAlgorithm::TorchAutocast);
  EXPECT_EQ(errorOf(R"({"name": "a", "algorithm": "autocast"})"),
            "test.json: algorithm: unknown algorithm 'autocast'; use "
            "minimum_cut, torch_autocast, tensorflow_painting or keras_layers");
  EXPECT_EQ(errorOf(R"({"name": "a", "algorithm": true})"),
            "test.json: algorithm: expects a string, got boolean");
  EXPECT_EQ(errorOf(R"({"name": "a",
                        "extends": "torch_autocast_cuda_float16",
                        "algorithm": "minimum_cut"})"),
            "test.json: algorithm: is minimum_cut where the policy it extends "
            "has layers or system lists of torch_autocast");
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

TEST(PolicyListsTest, AddAndRemoveEditTheExtendedLists) {
  Policy policy = parse(R"({"name": "a", "extends": "mixed_float16",
      "classes": {"low": {"add": ["softmax"], "remove": ["attention"]},
                  "high": {"remove": ["exp"]}, "follow": {"add": ["log"]}}})");
  EXPECT_EQ(policy.classOf("softmax"), PrecisionClass::Low);
  EXPECT_EQ(policy.classOf("matmul"), PrecisionClass::Low);
  EXPECT_EQ(policy.classOf("log"), PrecisionClass::Follow);
  // A removed kind is in no list and uses the default.
  EXPECT_EQ(policy.classOf("attention"), PrecisionClass::High);
  EXPECT_EQ(policy.getClasses().count("attention"), 0u);
  EXPECT_EQ(policy.getClasses().count("exp"), 0u);
}

TEST(PolicyListsTest, KindsMoveFromOneListToAnother) {
  Policy policy = parse(R"({"name": "a", "extends": "mixed_float16",
      "classes": {"high": {"remove": ["exp"]}, "low": {"add": ["exp"]}}})");
  EXPECT_EQ(policy.classOf("exp"), PrecisionClass::Low);
}

TEST(PolicyListsTest, ContradictingListsAreErrors) {
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {
                        "low": {"add": ["x"]}, "deny": {"add": ["x"]}}})"),
            "test.json: classes.low: kind 'x' is already in list 'deny'");
  EXPECT_EQ(errorOf(R"({"name": "a", "extends": "mixed_float16",
                        "classes": {"low": {"remove": ["exp"]}}})"),
            "test.json: classes.low: removes kind 'exp', which is in list "
            "'high'");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": {"remove": ["x"]}}})"),
            "test.json: classes.low: removes kind 'x', which is in no list");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {
                        "low": {"add": ["x"], "remove": ["x"]}}})"),
            "test.json: classes.low: 'x' is both added and removed");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": ["x", "x"]}})"),
            "test.json: classes.low: 'x' is given twice");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": {"adds": []}}})"),
            "test.json: classes.low.adds: unknown field; known: add, remove");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": {"add": [3]}}})"),
            "test.json: classes.low.add: expects strings, got number");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": [""]}})"),
            "test.json: classes.low: holds an empty name");
}

//===----------------------------------------------------------------------===//
// Lists of imitated systems
//===----------------------------------------------------------------------===//

const char *const kSystem = R"({"name": "a", "algorithm": "torch_autocast",
    "compute": "bf16", "default": "follow",
    "classes": {"high": ["relu"]},
    "system": {"lists": {"fp32": ["exp", "pow"], "promote": ["cat"],
                         "banned": ["binary_cross_entropy"]},
               "kinds": {"exp": "exp", "concat": "cat", "tanh": "tanh",
                         "relu": "exp"}}})";

TEST(PolicyListsTest, SystemListsClassifyByTheSystemsNames) {
  Policy policy = parse(kSystem);
  EXPECT_EQ(policy.classOfSystemOp("pow"), PrecisionClass::High);
  EXPECT_EQ(policy.classOfSystemOp("cat"), PrecisionClass::Widest);
  EXPECT_EQ(policy.classOfSystemOp("binary_cross_entropy"),
            PrecisionClass::Ban);
  EXPECT_EQ(policy.classOfSystemOp("tanh"), std::nullopt);
  EXPECT_EQ(policy.systemOpOf("concat"), "cat");
  EXPECT_EQ(policy.systemOpOf("matmul"), "");
  EXPECT_EQ(policy.getSystemLists().at("fp32"),
            (std::vector<std::string>{"exp", "pow"}));
}

TEST(PolicyListsTest, KindsTakeTheClassOfTheirSystemOp) {
  Policy policy = parse(kSystem);
  EXPECT_EQ(policy.classOf("concat"), PrecisionClass::Widest);
  EXPECT_EQ(policy.classOf("exp"), PrecisionClass::High);
  // An op in no list of the system, and a kind that it lacks.
  EXPECT_EQ(policy.classOf("tanh"), PrecisionClass::Follow);
  EXPECT_EQ(policy.classOf("matmul"), PrecisionClass::Follow);
}

TEST(PolicyListsTest, EveryPrefixOfAGoodTextIsAnError) {
  StringRef text = kSystem;
  EXPECT_EQ(errorOf(text), "");
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(errorOf(text.take_front(length)), "") << length;
}

TEST(PolicyListsTest, SystemErrorsSayWhereAndWhat) {
  EXPECT_EQ(errorOf(R"({"name": "a", "system": {}})"),
            "test.json: system: algorithm minimum_cut imitates no framework "
            "with op lists; use torch_autocast or tensorflow_painting");
  auto ofSystem = [](StringRef system) {
    return errorOf((R"({"name": "a", "algorithm": "tensorflow_painting",
                        "system": )" +
                    system + "}")
                       .str());
  };
  EXPECT_EQ(ofSystem("[]"), "test.json: system: expects an object with lists "
                            "and kinds, got array");
  EXPECT_EQ(ofSystem(R"({"list": {}})"),
            "test.json: system.list: unknown field; known: lists, kinds");
  EXPECT_EQ(ofSystem(R"({"lists": {"gray": []}})"),
            "test.json: system.lists.gray: unknown list; use the system's name "
            "of a list or low, high, follow, clear, widest, high_result or "
            "ban");
  EXPECT_EQ(ofSystem(R"({"lists": {"allow": ["A"], "deny": ["A"]}})"),
            "test.json: system.lists.deny: op 'A' is already in list 'allow'");
  EXPECT_EQ(ofSystem(R"({"lists": {"allow": {"remove": ["A"]}}})"),
            "test.json: system.lists.allow: removes op 'A', which is not in "
            "it");
  EXPECT_EQ(ofSystem(R"({"kinds": {"matmul": 1}})"),
            "test.json: system.kinds.matmul: expects an op's name, got number");
}

TEST(PolicyListsTest, SystemListsAreEditedByExtension) {
  Policy base;
  for (StringRef name : Policy::builtinNames()) {
    Expected<Policy> policy = Policy::load(name);
    ASSERT_TRUE(bool(policy));
    if (policy->getAlgorithm() == PolicyAlgorithm::TorchAutocast &&
        policy->classOfSystemOp("linear") == PrecisionClass::Low)
      base = *policy;
  }
  ASSERT_FALSE(base.getName().empty());
  Policy edited =
      parse(R"({"name": "a", "extends": ")" + base.getName().str() + R"(",
          "system": {"lists": {"lower_precision_fp": {"remove": ["linear"]},
                               "fp32": {"add": ["linear"]}}}})");
  EXPECT_EQ(edited.classOfSystemOp("linear"), PrecisionClass::High);
  EXPECT_EQ(edited.classOfSystemOp("matmul"), base.classOfSystemOp("matmul"));
}

} // namespace
