//===- LayerTests.cpp - queries for the types of layers -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../TemporaryModel.h"

#include "mpc/JIT/CompileFile.h"
#include "mpc/JIT/Engine.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

/// Queries, keys and values of one input, then a norm whose scale is one: the
/// norm is folded, and a layer of constants is removed.
constexpr const char *kModel = R"(
func.func @main(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x64xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %wq = mpc.constant dense<0.25> : tensor<64x64xf32> loc("q.weight")
  %wk = mpc.constant dense<0.5> : tensor<64x64xf32> loc("k.weight")
  %g = mpc.constant dense<[1.0, 2.0]> : tensor<2xf32> loc("g")
  %c = mpc.add %g, %g {mpc.layer = "scales"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("twice")
  %s = mpc.reduce_sum %c axes([0]) {mpc.layer = "scales"} : tensor<2xf32> -> tensor<f32> loc("sum")
  %q = mpc.matmul %x, %wq {mpc.layer = "block/q"} : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("query")
  %k = mpc.matmul %x, %wk {mpc.layer = "block/k"} : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32> loc("key")
  %0 = mpc.mul %q, %k {mpc.layer = "block"} : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32> loc("product")
  %1 = mpc.mul %0, %s {mpc.layer = "block"} : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32> loc("scaled")
  %2 = mpc.softmax %1 axis(1) {mpc.layer = "head"} : tensor<32x64xf32> loc("softmax")
  return %2 : tensor<32x64xf32>
})";

class LayerTest : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    model = writeModel(kModel);
  }

  Executable compile(const CompileOptions &options) {
    Result<Executable> compiled = engine.compile(model, options);
    EXPECT_TRUE(compiled.ok()) << compiled.status().toString();
    return *compiled;
  }
  static CompileOptions
  options(const std::string &policy,
          std::vector<std::pair<std::string, std::string>> sets = {}) {
    CompileOptions options;
    options.policy = policy;
    options.sets = std::move(sets);
    return options;
  }

  Engine engine = *Engine::create(*Device::cpu({.threads = 1}));
  std::string model;
};

} // namespace

TEST_F(LayerTest, EveryLayerOfTheModelIsListed) {
  Executable compiled = compile(options("mixed_bfloat16"));
  std::string paths;
  for (const LayerTypes &layer : compiled.program().layers)
    paths += "[" + layer.path + "]";
  EXPECT_EQ(paths, "[scales][block/q][block/k][block][head]");
}

TEST_F(LayerTest, TypesAreThoseOfThePolicy) {
  for (auto [policy, low] :
       {std::pair("mixed_bfloat16", "bf16"), {"mixed_float16", "f16"}}) {
    Executable compiled = compile(options(policy));
    LayerTypes query = *compiled.layer("block/q");
    EXPECT_EQ(query.policy, policy);
    EXPECT_EQ(query.computeType(), low);
    EXPECT_EQ(query.variableType(), "f32");
    ASSERT_EQ(query.variables.size(), 1u);
    EXPECT_EQ(query.variables[0].name, "q.weight");
    EXPECT_EQ(query.variables[0].stored, std::vector<std::string>{low});
    EXPECT_EQ(compiled.layer("head")->computeType(), "f32");
    EXPECT_EQ(compiled.layer("head")->storageType(), "f32");
    EXPECT_TRUE(compiled.layer("scales")->isFolded());
    // The union: contractions decide.
    EXPECT_EQ(compiled.layer("block")->computeType(), low);
    EXPECT_EQ(compiled.layer("block")->variables.size(), 2u);
    EXPECT_EQ(compiled.layer("")->policy, policy);
  }
  EXPECT_EQ(compile(options("float32")).layer("block")->computeType(), "f32");
  EXPECT_EQ(compile(options("tf32")).layer("block/k")->computeType(), "tf32");
}

TEST_F(LayerTest, OverridesAreSeen) {
  Executable compiled =
      compile(options("mixed_float16", {{"layer:block/q", "float32"},
                                        {"op:softmax", "float16"}}));
  EXPECT_EQ(compiled.layer("block/q")->computeType(), "f32");
  EXPECT_EQ(compiled.layer("block/q")->variables[0].stored,
            std::vector<std::string>{"f32"});
  EXPECT_EQ(compiled.layer("block/k")->computeType(), "f16");
  EXPECT_EQ(compiled.layer("head")->computeType(), "f16");
}

TEST_F(LayerTest, MergedMatmulsRepresentTheirLayers) {
  // A training step for a GPU loads both weights as one.
  CompileOptions choices = options("mixed_bfloat16");
  choices.target = "cuda:sm_80";
  choices.training.emplace();
  choices.training->loss.kind = "mean_squared_error";
  Engine null = *Engine::create(Device::null());
  Result<Executable> step = null.compile(model, choices);
  ASSERT_TRUE(step.ok()) << step.status().toString();
  for (auto [path, weight] :
       {std::pair("block/q", "q.weight"), {"block/k", "k.weight"}}) {
    LayerTypes layer = *step->layer(path);
    EXPECT_EQ(layer.computeType(), "bf16") << path;
    ASSERT_EQ(layer.gradient.size(), 1u) << path;
    EXPECT_EQ(layer.gradient[0].type, "bf16") << path;
    ASSERT_EQ(layer.variables.size(), 1u) << path;
    EXPECT_EQ(layer.variables[0],
              (VariableType{weight, "parameter", "f32", {"f32", "bf16"}}));
  }
  EXPECT_EQ(step->layer("block")->variables.size(), 2u);
}

TEST_F(LayerTest, AFileAnswersAsTheCompileDoes) {
  std::string file = model + ".mpcx";
  CompileOptions choices = options("mixed_bfloat16");
  Result<CompiledFile> written =
      compileToFile(model, file, {"cpu:native"}, choices);
  ASSERT_TRUE(written.ok()) << written.status().toString();
  Result<Executable> loaded = loadExecutable(Device::null(), file);
  ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
  EXPECT_EQ(loaded->program().layers, compile(choices).program().layers);
  EXPECT_EQ(loaded->program().layers,
            written->specialisations[0].targets[0].layers);
  EXPECT_EQ(loaded->layer("blok").status().toString(),
            "layer 'blok': does not exist; did you mean 'block'");
}
