//===- PolicyTest.cpp - precision policies --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Policy/Policy.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <sys/stat.h>
#include <unistd.h>

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
  EXPECT_EQ(names, (std::vector<StringRef>{"bfloat16",
                                           "float16",
                                           "float32",
                                           "float8_block",
                                           "float8_current",
                                           "keras_mixed_bfloat16",
                                           "keras_mixed_float16",
                                           "mixed_bfloat16",
                                           "mixed_float16",
                                           "mixed_float8",
                                           "mxfp8",
                                           "nvfp4",
                                           "tf32",
                                           "tf_amp_cpu_float16",
                                           "tf_amp_gpu_float16",
                                           "tf_amp_onednn_bfloat16",
                                           "torch_autocast_cpu_bfloat16",
                                           "torch_autocast_cpu_float16",
                                           "torch_autocast_cuda_bfloat16",
                                           "torch_autocast_cuda_float16"}));
  for (StringRef name : names) {
    Policy policy = load(name);
    EXPECT_EQ(policy.getName(), name);
    EXPECT_FALSE(policy.getDescription().empty());
    EXPECT_EQ(policy.getAccumulate(), PolicyType::Float32);
    EXPECT_EQ(policy.getOutput(), PolicyType::Float32);
    EXPECT_EQ(policy.getVariable(), PolicyType::Float32);
    // The name contains the imitated system and the type.
    PolicyAlgorithm algorithm =
        name.starts_with("torch_")   ? PolicyAlgorithm::TorchAutocast
        : name.starts_with("tf_amp") ? PolicyAlgorithm::TensorFlowPainting
        : name.starts_with("keras_") ? PolicyAlgorithm::KerasLayers
                                     : PolicyAlgorithm::MinimumCut;
    EXPECT_EQ(policy.getAlgorithm(), algorithm) << name.str();
    EXPECT_EQ(policy.getCompute(),
              name.ends_with("bfloat16") || policy.quantizesOperands()
                  ? PolicyType::BFloat16
              : name.ends_with("float16") ? PolicyType::Float16
              : name == "tf32"            ? PolicyType::TensorFloat32
                                          : PolicyType::Float32)
        << name.str();
  }
}

TEST(PolicyTest, OwnPoliciesKeepSoftmaxInFloat32) {
  for (StringRef name : Policy::builtinNames()) {
    if (load(name).getAlgorithm() != PolicyAlgorithm::MinimumCut)
      continue;
    for (StringRef kind : {"softmax", "log_softmax"})
      EXPECT_EQ(load(name).classOf(kind), PrecisionClass::High)
          << name.str() << " " << kind.str();
  }
}

TEST(PolicyTest, TensorFloat32IsFloat32InMemory) {
  Policy policy = load("tf32");
  EXPECT_EQ(policy.getStore(), PolicyType::Float32);
  EXPECT_EQ(policy.classOf("conv"), PrecisionClass::Low);
}

TEST(PolicyTest, Float64IsNoPolicy) {
  Expected<Policy> policy = Policy::load("float64");
  ASSERT_FALSE(bool(policy));
  EXPECT_EQ(toString(policy.takeError()),
            "policy 'float64' does not exist: a policy assigns types to "
            "float32 values, and float64 values keep their type; use float32 "
            "and override ops by --set op:KIND=float64");
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

TEST(PolicyTest, NoFileHasTheNameOfABuiltInPolicy) {
  Expected<Policy> policy = Policy::parse(
      R"({"extends": "mixed_float16", "output": "float16"})", "dir/mine.json");
  ASSERT_TRUE(bool(policy));
  EXPECT_EQ(policy->getName(), "mine.json");
  EXPECT_EQ(errorOf(R"({"name": "mixed_float16", "extends": "float16"})"),
            "test.json: name: 'mixed_float16' is a built-in policy; choose "
            "another");
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
            "test.json:3:3: is not valid JSON here");
  EXPECT_EQ(errorOf("[]"), "test.json: policy: expects an object, got array");
  EXPECT_EQ(errorOf("{}"), "test.json: name: is missing");
  EXPECT_EQ(errorOf(R"({"name": "a", "name": "b"})"),
            "test.json: name: is given twice");
  EXPECT_EQ(errorOf(R"({"name": 3})"),
            "test.json: name: expects a string, got number");
  EXPECT_EQ(errorOf(R"({"name": "a", "compute": "float8"})"),
            "test.json: compute: unknown type 'float8'; use float32, float16, "
            "bfloat16, tf32, bf16x2 or bf16x3");
  EXPECT_NE(errorOf(R"({"name": "a", "extends": "b"})")
                .find("test.json: extends: no built-in policy 'b'; known: "
                      "bfloat16, float16, float32, "),
            std::string::npos);
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
            "op:KIND=TYPE, layer:PATH=TYPE, name:NAME=TYPE, "
            "inputs:NAME=float32 or backward:NAME=TYPE");
  EXPECT_NE(errorOf(R"({"name": "a", "colour": "red"})")
                .find("colour: unknown field"),
            std::string::npos);
}

TEST(PolicyTest, HostileTextIsRefusedWithoutRecursion) {
  EXPECT_EQ(errorOf(std::string(200000, '[')),
            "test.json: nests more than 16 levels deep");
  EXPECT_EQ(
      errorOf(std::string((1 << 24) + 1, ' ')),
      "test.json: is 16777217 bytes long, at most 16777216 are supported");
  EXPECT_EQ(errorOf(""), "test.json:1:1: is not valid JSON here");
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
  EXPECT_FALSE(sys::fs::remove(path));
  Expected<Policy> missing = Policy::load("/nowhere/policy.json");
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(
      toString(missing.takeError()),
      "/nowhere/policy.json: cannot be opened: No such file or directory");
}

static std::string errorOfFile(StringRef path) {
  Expected<Policy> policy = Policy::load(path);
  return policy ? "" : toString(policy.takeError());
}

TEST(PolicyTest, PipesAndFilesWithoutEndAreRefused) {
  SmallString<64> path;
  int descriptor;
  ASSERT_FALSE(
      sys::fs::createTemporaryFile("policy", "json", descriptor, path));
  // A hole of 1 TB.
  ASSERT_EQ(::ftruncate(descriptor, off_t(1) << 40), 0);
  ::close(descriptor);
  EXPECT_EQ(
      errorOfFile(path),
      (path + ": is 1099511627776 bytes long, at most 16777216 are supported")
          .str());
  EXPECT_FALSE(sys::fs::remove(path));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(errorOfFile(path), (path + ": is not a regular file").str());
  EXPECT_EQ(::unlink(path.c_str()), 0);
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

TEST(PolicyTest, AnOverrideThatAnotherOneBeatsStillFits) {
  Policy policy = load("mixed_float16");
  add(policy, "op:add=float32");
  add(policy, "name:n=float16");
  EXPECT_EQ(decide(policy, "add", "", {"n"}), "name:n=float16");
  const PolicyOverride &kind = policy.getOverrides().front();
  EXPECT_TRUE(kind.fits("add", "", {"n"}));
  EXPECT_FALSE(kind.fits("mul", "", {"n"}));
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
  // A name does not hide the ambiguity; naming the layer removes it.
  add(policy, "name:n=float16");
  EXPECT_NE(decide(policy, "add", "a/b", {"n"}).find("error:"),
            std::string::npos);
  add(policy, "layer:a/b=bfloat16");
  EXPECT_EQ(decide(policy, "add", "a/b"), "layer:a/b=bfloat16");
  EXPECT_EQ(decide(policy, "add", "a/b", {"n"}), "name:n=float16");

  Policy names = load("mixed_float16");
  add(names, "name:x=float32");
  add(names, "name:y=float16");
  EXPECT_EQ(decide(names, "add", "", {"x", "y"}),
            "error: overrides 'name:x=float32' and 'name:y=float16' both match "
            "the op 'x'; keep one of them");

  Error twice = names.addOverride("name:x=bfloat16");
  EXPECT_EQ(toString(std::move(twice)),
            "overrides 'name:x=float32' and 'name:x=bfloat16' set different "
            "types for one key; keep one of them");
}

TEST(PolicyTest, BadOverridesAreErrors) {
  Policy policy = load("float32");
  EXPECT_EQ(toString(policy.addOverride("op:add")),
            "override 'op:add' is not of the form op:KIND=TYPE, "
            "layer:PATH=TYPE, name:NAME=TYPE, inputs:NAME=float32 or "
            "backward:NAME=TYPE");
  EXPECT_EQ(toString(policy.addOverride("kind:add=float32")),
            "override 'kind:add=float32' has the unknown key 'kind'; use op, "
            "layer, name, inputs or backward");
  EXPECT_EQ(toString(policy.addOverride("op:add=int8")),
            "override 'op:add=int8' names the unknown type 'int8'; use "
            "float32, float16, bfloat16, float64, tf32, bf16x2, bf16x3, "
            "float8_e4m3fn or float8_e5m2");
  // A pattern may contain its delimiter.
  add(policy, "name:a=b=float16");
  EXPECT_EQ(decide(policy, "add", "", {"a=b"}), "name:a=b=float16");
}

TEST(PolicyTest, ABackwardPassHasOverridesOfItsOwn) {
  Policy policy = load("mixed_float16");
  add(policy, "op:matmul=float16");
  add(policy, "backward:op:matmul=bfloat16");
  add(policy, "layer:head/.*=float32");
  add(policy, "backward:layer:head/[12]=bfloat16");
  add(policy, "name:fc=float32");
  add(policy, "backward:fc2=float32");
  add(policy, "backward:inputs:fc3=float32");
  auto backward = [&](StringRef layer, StringRef name) {
    Expected<const PolicyOverride *> found =
        policy.findOverride("matmul", layer, {name}, /*isBackward=*/true);
    return found ? (*found)->text : toString(found.takeError());
  };
  EXPECT_EQ(decide(policy, "matmul", "", {"x"}), "op:matmul=float16");
  EXPECT_EQ(backward("", "x"), "backward:op:matmul=bfloat16");
  // Regular expressions for the two passes may overlap.
  EXPECT_EQ(decide(policy, "matmul", "head/1", {"x"}), "layer:head/.*=float32");
  EXPECT_EQ(backward("head/1", "x"), "backward:layer:head/[12]=bfloat16");
  EXPECT_EQ(backward("head/3", "x"), "layer:head/.*=float32");
  // A closer key decides, whichever pass it speaks of.
  EXPECT_EQ(backward("head/1", "fc"), "name:fc=float32");
  EXPECT_EQ(backward("head/1", "fc2"), "backward:fc2=float32");
  EXPECT_EQ(decide(policy, "matmul", "", {"fc2"}), "op:matmul=float16");
  EXPECT_EQ(policy.findInputs("matmul", "", {"fc3"}), nullptr);
  EXPECT_NE(policy.findInputs("matmul", "", {"fc3"}, /*isBackward=*/true),
            nullptr);
  Policy forward = load("mixed_float16"), both = load("mixed_float16");
  add(forward, "op:matmul=bfloat16");
  add(both, "backward:op:matmul=bfloat16");
  EXPECT_NE(forward.digest(), both.digest());
}

TEST(PolicyTest, InputsAreProtectedByNameLayerOrKind) {
  Policy policy = load("mixed_float16");
  add(policy, "inputs:fc=float32");
  add(policy, "inputs:op:softmax=float32");
  add(policy, "inputs:layer:head/.*=float32");
  // A name may hold a colon, and be called like a key.
  add(policy, "inputs:a:b=float32");
  add(policy, "inputs:op=float32");
  auto inputs = [&](StringRef kind, StringRef layer, StringRef name) {
    const PolicyOverride *found = policy.findInputs(kind, layer, {name});
    return found ? found->text : "";
  };
  EXPECT_EQ(inputs("matmul", "", "fc"), "inputs:fc=float32");
  EXPECT_EQ(inputs("softmax", "", "x"), "inputs:op:softmax=float32");
  EXPECT_EQ(inputs("softmax", "", "fc"), "inputs:fc=float32");
  EXPECT_EQ(inputs("add", "head/1", "x"), "inputs:layer:head/.*=float32");
  EXPECT_EQ(inputs("add", "", "a:b"), "inputs:a:b=float32");
  EXPECT_EQ(inputs("add", "", "op"), "inputs:op=float32");
  EXPECT_EQ(inputs("matmul", "", "other"), "");
  // They do not apply to the ops themselves.
  EXPECT_EQ(decide(policy, "matmul", "", {"fc"}), "");
  EXPECT_NE(policy.digest(), load("mixed_float16").digest());
  EXPECT_EQ(toString(policy.addOverride("inputs:fc=float16")),
            "override 'inputs:fc=float16' sets inputs to float16, but inputs "
            "can only be kept in float32; for another type, override the op");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

TEST(PolicyTest, TypesRoundTripAndHaveWidths) {
  for (PolicyType type : allPolicyTypes())
    EXPECT_EQ(parsePolicyType(stringify(type)), type);
  EXPECT_EQ(allPolicyTypes().size(), 9u);
  EXPECT_EQ(parsePolicyType("half"), PolicyType::Float16);
  EXPECT_EQ(parsePolicyType("double"), PolicyType::Float64);
  EXPECT_EQ(parsePolicyType("f8E4M3FN"), PolicyType::Float8E4M3FN);
  EXPECT_EQ(parsePolicyType("float8"), std::nullopt);
  EXPECT_EQ(storageBits(PolicyType::BFloat16), 16u);
  EXPECT_EQ(storageBits(PolicyType::TensorFloat32), 32u);
  EXPECT_EQ(storageBits(PolicyType::Float8E5M2), 8u);
  EXPECT_EQ(storageBits(PolicyType::Float64), 64u);
  EXPECT_TRUE(isComputeMode(PolicyType::BFloat16x3));
  EXPECT_FALSE(isComputeMode(PolicyType::BFloat16));
}

TEST(PolicyTest, ClassesRoundTripAndHaveAliases) {
  for (PrecisionClass cls :
       {PrecisionClass::Low, PrecisionClass::High, PrecisionClass::Follow,
        PrecisionClass::Clear, PrecisionClass::Widest,
        PrecisionClass::HighResult, PrecisionClass::Ban})
    EXPECT_EQ(parsePrecisionClass(stringify(cls)), cls);
  const std::pair<StringRef, PrecisionClass> aliases[] = {
      {"allow", PrecisionClass::Low},
      {"lower_precision_fp", PrecisionClass::Low},
      {"deny", PrecisionClass::High},
      {"fp32", PrecisionClass::High},
      {"infer", PrecisionClass::Follow},
      {"promote", PrecisionClass::Widest},
      {"fp32_set_opt_dtype", PrecisionClass::HighResult},
      {"fp32_append_dtype", PrecisionClass::HighResult},
      {"banned", PrecisionClass::Ban}};
  for (auto [alias, cls] : aliases)
    EXPECT_EQ(parsePrecisionClass(alias), cls) << alias.str();
  EXPECT_EQ(parsePrecisionClass("gray"), std::nullopt);
}

TEST(PolicyTest, AlgorithmsRoundTrip) {
  for (PolicyAlgorithm algorithm :
       {PolicyAlgorithm::MinimumCut, PolicyAlgorithm::TorchAutocast,
        PolicyAlgorithm::TensorFlowPainting, PolicyAlgorithm::KerasLayers})
    EXPECT_EQ(parsePolicyAlgorithm(stringify(algorithm)), algorithm);
  EXPECT_EQ(parsePolicyAlgorithm("grappler"), std::nullopt);
}

} // namespace
