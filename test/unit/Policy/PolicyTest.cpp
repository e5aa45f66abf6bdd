//===- PolicyTest.cpp - precision policies --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace mpc;

namespace {

/// The message of a text that is no policy.
std::string errorOf(StringRef json) {
  Expected<Policy> policy = Policy::parse(json, "test.json");
  return policy ? "" : toString(policy.takeError());
}

Policy load(StringRef name) {
  Expected<Policy> policy = Policy::load(name);
  if (!policy) {
    ADD_FAILURE() << toString(policy.takeError());
    return Policy();
  }
  return *policy;
}

/// The text of the override that decides, "" for none, the message of an error.
std::string decide(const Policy &policy, StringRef kind, StringRef layer,
                   ArrayRef<StringRef> names = {}) {
  Expected<const PolicyOverride *> found =
      policy.findOverride(kind, layer, names);
  if (!found)
    return "error: " + toString(found.takeError());
  return *found ? (*found)->text : "";
}

void add(Policy &policy, StringRef text,
         PolicyOverride::Source source = PolicyOverride::Source::CommandLine) {
  Error error = policy.addOverride(text, source);
  EXPECT_FALSE(bool(error)) << text.str();
  consumeError(std::move(error));
}

//===----------------------------------------------------------------------===//
// Built-in policies
//===----------------------------------------------------------------------===//

TEST(PolicyTest, BuiltinsLoadAndAreNamedAfterTheirFile) {
  std::vector<StringRef> names = Policy::builtinNames();
  EXPECT_EQ(names, (std::vector<StringRef>{"bfloat16", "float16", "float32",
                                           "mixed_bfloat16", "mixed_float16"}));
  for (StringRef name : names) {
    Policy policy = load(name);
    EXPECT_EQ(policy.getName(), name);
    EXPECT_FALSE(policy.getDescription().empty());
    EXPECT_EQ(policy.getAccumulate(), PolicyType::Float32);
  }
}

TEST(PolicyTest, EveryBuiltinKeepsSoftmaxInFloat32) {
  for (StringRef name : Policy::builtinNames())
    for (StringRef kind : {"softmax", "log_softmax"})
      EXPECT_EQ(load(name).classOf(kind), PrecisionClass::High)
          << name.str() << " " << kind.str();
}

TEST(PolicyTest, MixedPoliciesDifferInTheirTypesOnly) {
  Policy half = load("mixed_float16"), brain = load("mixed_bfloat16");
  EXPECT_EQ(half.getCompute(), PolicyType::Float16);
  EXPECT_EQ(brain.getCompute(), PolicyType::BFloat16);
  EXPECT_EQ(brain.getStore(), PolicyType::BFloat16);
  EXPECT_EQ(half.getClasses(), brain.getClasses());
  EXPECT_EQ(half.classOf("matmul"), PrecisionClass::Low);
  EXPECT_EQ(half.classOf("exp"), PrecisionClass::High);
  EXPECT_EQ(half.classOf("add"), PrecisionClass::Follow);
  EXPECT_EQ(half.classOf("relu"), PrecisionClass::Clear);
  EXPECT_EQ(half.classOf("concat"), PrecisionClass::Widest);
}

TEST(PolicyTest, UnlistedKindsTakeTheDefault) {
  EXPECT_EQ(load("mixed_float16").classOf("no_such_op"), PrecisionClass::High);
  EXPECT_EQ(load("float16").classOf("no_such_op"), PrecisionClass::Low);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

TEST(PolicyTest, ExtendsMovesKindsBetweenClasses) {
  Expected<Policy> policy =
      Policy::parse(R"({"name": "mine", "extends": "mixed_float16",
                        "classes": {"deny": ["matmul"], "infer": ["exp"]}})",
                    "mine.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->classOf("matmul"), PrecisionClass::High);
  EXPECT_EQ(policy->classOf("exp"), PrecisionClass::Follow);
  EXPECT_EQ(policy->classOf("conv"), PrecisionClass::Low);
  EXPECT_EQ(policy->getCompute(), PolicyType::Float16);
}

TEST(PolicyTest, StoreFollowsComputeUnlessGiven) {
  Expected<Policy> policy =
      Policy::parse(R"({"name": "a", "compute": "bf16"})", "a.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->getStore(), PolicyType::BFloat16);
  policy = Policy::parse(
      R"({"name": "a", "compute": "bf16", "store": "float32"})", "a.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->getStore(), PolicyType::Float32);
}

TEST(PolicyTest, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(errorOf("{\n  \"name\": \"a\",\n  oops\n}"),
            "test.json:3:3: is not JSON here");
  EXPECT_EQ(errorOf("[]"), "test.json: policy: expects an object, got array");
  EXPECT_EQ(errorOf("{}"), "test.json: name: is missing");
  EXPECT_EQ(errorOf(R"({"name": "a", "name": "b"})"),
            "test.json: name: is given twice");
  EXPECT_EQ(errorOf(R"({"name": 3})"),
            "test.json: name: expects a string, got number");
  EXPECT_EQ(errorOf(R"({"name": "a", "compute": "float8"})"),
            "test.json: compute: unknown type 'float8'; use float32, float16 "
            "or bfloat16");
  EXPECT_EQ(errorOf(R"({"name": "a", "extends": "b"})"),
            "test.json: extends: no built-in policy 'b'; known: bfloat16, "
            "float16, float32, mixed_bfloat16, mixed_float16");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"lowest": []}})"),
            "test.json: classes.lowest: unknown class; use low, high, follow, "
            "clear, widest, high_result or ban");
  EXPECT_EQ(
      errorOf(R"({"name": "a", "classes": {"low": ["add"], "high": ["add"]}})"),
      "test.json: classes.low: kind 'add' is already in list 'high'");
  EXPECT_EQ(errorOf(R"({"name": "a", "classes": {"low": "add"}})"),
            "test.json: classes.low: expects a list of op kinds, got string");
  EXPECT_EQ(
      errorOf(R"({"name": "a", "compute": "bf16", "accumulate": "float16"})"),
      "test.json: accumulate: is float16 where compute is bfloat16; it must "
      "be float32 or the compute type");
  EXPECT_EQ(errorOf(R"({"name": "a", "overrides": {"add": "float32"}})"),
            "test.json: overrides: override 'add=float32' is not of the form "
            "op:KIND=TYPE, layer:PATH=TYPE or name:NAME=TYPE");
  EXPECT_NE(errorOf(R"({"name": "a", "colour": "red"})")
                .find("colour: unknown field"),
            std::string::npos);
}

TEST(PolicyTest, HostileTextIsRefusedWithoutRecursion) {
  EXPECT_EQ(errorOf(std::string(200000, '[')),
            "test.json: nests more than 16 levels deep");
  EXPECT_EQ(errorOf(std::string((1 << 20) + 1, ' ')),
            "test.json: is 1048577 bytes long, at most 1048576 are read");
  EXPECT_EQ(errorOf(""), "test.json:1:1: is not JSON here");
  // Every prefix of a good text is an error, never a crash.
  std::string good = R"({"name": "a", "classes": {"low": ["add", "mul"]}})";
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(errorOf(StringRef(good).take_front(length)), "") << length;
  EXPECT_EQ(errorOf(good), "");
}

TEST(PolicyTest, FilesAreLoadedByTheirSuffix) {
  SmallString<64> path;
  int descriptor;
  ASSERT_FALSE(
      sys::fs::createTemporaryFile("policy", "json", descriptor, path));
  {
    raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << R"({"name": "mine", "extends": "mixed_bfloat16"})";
  }
  EXPECT_EQ(load(path).getName(), "mine");
  sys::fs::remove(path);
  Expected<Policy> missing = Policy::load("/nowhere/policy.json");
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(toString(missing.takeError()),
            "/nowhere/policy.json: cannot be read: No such file or directory");
}

//===----------------------------------------------------------------------===//
// Overrides
//===----------------------------------------------------------------------===//

TEST(PolicyTest, CloserKeysWin) {
  Policy policy = load("mixed_float16");
  add(policy, "op:matmul=float32");
  EXPECT_EQ(decide(policy, "matmul", "enc/0"), "op:matmul=float32");
  add(policy, "layer:enc/.*=bfloat16");
  EXPECT_EQ(decide(policy, "matmul", "enc/0"), "layer:enc/.*=bfloat16");
  add(policy, "layer:enc/0=float16");
  EXPECT_EQ(decide(policy, "matmul", "enc/0"), "layer:enc/0=float16");
  EXPECT_EQ(decide(policy, "matmul", "enc/1"), "layer:enc/.*=bfloat16");
  add(policy, "name:/MatMul_3=float32");
  EXPECT_EQ(decide(policy, "matmul", "enc/0", {"/Add", "/MatMul_3"}),
            "name:/MatMul_3=float32");
  EXPECT_EQ(decide(policy, "add", "dec/0"), "");
}

TEST(PolicyTest, RegexesMatchWholePaths) {
  Policy policy = load("mixed_float16");
  add(policy, "layer:enc=float32");
  EXPECT_EQ(decide(policy, "add", "enc"), "layer:enc=float32");
  EXPECT_EQ(decide(policy, "add", "encoder"), "");
  EXPECT_EQ(decide(policy, "add", ""), "");
}

TEST(PolicyTest, TheCommandLineBeatsTheFile) {
  Policy policy = load("mixed_float16");
  add(policy, "name:a=float32", PolicyOverride::Source::File);
  EXPECT_EQ(decide(policy, "add", "", {"a"}), "name:a=float32");
  add(policy, "op:add=bfloat16");
  EXPECT_EQ(decide(policy, "add", "", {"a"}), "op:add=bfloat16");
}

TEST(PolicyTest, OrderNeverMatters) {
  const char *texts[] = {"op:add=float32", "layer:a=float16",
                         "name:n=bfloat16"};
  for (int first = 0; first < 3; ++first) {
    Policy policy = load("mixed_float16");
    for (int i = 0; i < 3; ++i)
      add(policy, texts[(first + i) % 3]);
    EXPECT_EQ(decide(policy, "add", "a", {"n"}), "name:n=bfloat16");
  }
}

TEST(PolicyTest, AmbiguityIsAnError) {
  Policy policy = load("mixed_float16");
  add(policy, "layer:a/.*=float32");
  add(policy, "layer:.*/b=float32");
  EXPECT_EQ(decide(policy, "add", "a/b"),
            "error: overrides 'layer:a/.*=float32' and 'layer:.*/b=float32' "
            "both match layer 'a/b'; make the regular expressions disjoint or "
            "name the layer exactly");
  EXPECT_EQ(decide(policy, "add", "a/c"), "layer:a/.*=float32");

  Policy names = load("mixed_float16");
  add(names, "name:x=float32");
  add(names, "name:y=float16");
  EXPECT_EQ(decide(names, "add", "", {"x", "y"}),
            "error: overrides 'name:x=float32' and 'name:y=float16' both match "
            "the op 'x'; keep one of them");

  Error twice = names.addOverride("name:x=bfloat16");
  EXPECT_EQ(toString(std::move(twice)),
            "overrides 'name:x=float32' and 'name:x=bfloat16' give one key two "
            "types; keep one of them");
}

TEST(PolicyTest, BadOverridesAreErrors) {
  Policy policy = load("float32");
  EXPECT_EQ(toString(policy.addOverride("op:add")),
            "override 'op:add' is not of the form op:KIND=TYPE, "
            "layer:PATH=TYPE or name:NAME=TYPE");
  EXPECT_EQ(toString(policy.addOverride("kind:add=float32")),
            "override 'kind:add=float32' has the unknown key 'kind'; use op, "
            "layer or name");
  EXPECT_EQ(toString(policy.addOverride("op:add=int8")),
            "override 'op:add=int8' names the unknown type 'int8'; use "
            "float32, float16 or bfloat16");
  // A pattern may hold the sign that ends it.
  add(policy, "name:a=b=float16");
  EXPECT_EQ(decide(policy, "add", "", {"a=b"}), "name:a=b=float16");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TEST(PolicyTest, NamesRoundTripAndHaveAliases) {
  for (PolicyType type :
       {PolicyType::Float32, PolicyType::Float16, PolicyType::BFloat16})
    EXPECT_EQ(parsePolicyType(stringify(type)), type);
  for (PrecisionClass cls :
       {PrecisionClass::Low, PrecisionClass::High, PrecisionClass::Follow,
        PrecisionClass::Clear, PrecisionClass::Widest,
        PrecisionClass::HighResult, PrecisionClass::Ban})
    EXPECT_EQ(parsePrecisionClass(stringify(cls)), cls);
  EXPECT_EQ(parsePrecisionClass("lower_precision_fp"), PrecisionClass::Low);
  EXPECT_EQ(parsePrecisionClass("deny"), PrecisionClass::High);
  EXPECT_EQ(parsePrecisionClass("promote"), PrecisionClass::Widest);
  EXPECT_EQ(parsePrecisionClass("gray"), std::nullopt);
}

} // namespace
