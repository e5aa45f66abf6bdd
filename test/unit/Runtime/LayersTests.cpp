//===- LayersTests.cpp - queries for the types of layers ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Layers.h"

#include "mpc/Runtime/Executable.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

using Shares = std::vector<TypeShare>;

LayerTypes layer(const std::string &path, Shares compute, Shares storage,
                 std::vector<VariableType> variables = {},
                 const std::string &policy = "mixed_bfloat16") {
  return {path,
          policy,
          std::move(compute),
          {},
          std::move(storage),
          std::move(variables)};
}

/// Two blocks and a head; the head shares its weight with the first block.
std::vector<LayerTypes> makeLayers() {
  VariableType weight = {"w", "parameter", "f32", {"f32", "bf16"}};
  return {layer("encoder/block_0/dense", {{"bf16", 1, 100}, {"f32", 2, 0}},
                {{"bf16", 1, 64}}, {weight}),
          layer("encoder/block_0/norm", {{"f32", 3, 0}}, {{"f32", 2, 128}},
                {{"gamma", "parameter", "f32", {"f32"}}}),
          layer("encoder/block_01", {{"f16", 1, 8}}, {{"f16", 1, 2}}),
          layer("encoder/folded", {}, {}),
          layer("head", {{"f32", 1, 50}}, {{"f32", 1, 4}},
                {{"w", "parameter", "f32", {"f32"}}}, "float32"),
          layer("", {{"f32", 1, 0}}, {{"f32", 1, 4}})};
}

std::string failure(const std::string &path) {
  Result<LayerTypes> found = findLayer(makeLayers(), path);
  EXPECT_EQ(found.status().code(), StatusCode::NotFound);
  return found.ok() ? "" : found.status().toString();
}

} // namespace

TEST(Layers, OneLayerHasItsOwnTypes) {
  Result<LayerTypes> found = findLayer(makeLayers(), "encoder/block_0/dense");
  ASSERT_TRUE(found.ok()) << found.status().toString();
  EXPECT_EQ(*found, makeLayers()[0]);
  EXPECT_EQ(found->computeType(), "bf16");
  EXPECT_EQ(found->storageType(), "bf16");
  EXPECT_EQ(found->variableType(), "f32");
  EXPECT_FALSE(found->isFolded());
}

TEST(Layers, AnOuterPathIsTheUnionOfWhatItHolds) {
  LayerTypes found = *findLayer(makeLayers(), "encoder/block_0");
  EXPECT_EQ(found.path, "encoder/block_0");
  EXPECT_EQ(found.policy, "mixed_bfloat16");
  EXPECT_EQ(found.compute, (Shares{{"bf16", 1, 100}, {"f32", 5, 0}}));
  // Most bytes first. block_01 is not inside of block_0.
  EXPECT_EQ(found.storage, (Shares{{"f32", 2, 128}, {"bf16", 1, 64}}));
  ASSERT_EQ(found.variables.size(), 2u);
  EXPECT_EQ(found.variables[1].name, "gamma");
}

TEST(Layers, TheEmptyPathIsTheWholeModel) {
  LayerTypes found = *findLayer(makeLayers(), "");
  EXPECT_EQ(found.policy, "");
  EXPECT_EQ(found.compute,
            (Shares{{"bf16", 1, 100}, {"f32", 7, 50}, {"f16", 1, 8}}));
  // One variable, though two layers read it.
  ASSERT_EQ(found.variables.size(), 2u);
  EXPECT_EQ(found.variables[0].stored,
            (std::vector<std::string>{"f32", "bf16"}));
  EXPECT_EQ(findLayer({}, "")->computeType(), "");
}

TEST(Layers, AFoldedLayerHasNoTypes) {
  LayerTypes found = *findLayer(makeLayers(), "encoder/folded");
  EXPECT_TRUE(found.isFolded());
  EXPECT_EQ(found.computeType(), "");
  EXPECT_EQ(found.storageType(), "");
  EXPECT_EQ(found.variableType(), "");
}

TEST(Layers, AnUnknownPathNamesThoseThatLookLikeIt) {
  EXPECT_EQ(failure("encodr"),
            "layer 'encodr': does not exist; did you mean 'encoder'");
  EXPECT_EQ(failure("block_0/dense"), "layer 'block_0/dense': does not exist; "
                                      "did you mean 'encoder/block_0/dense'");
  EXPECT_EQ(failure("encoder/block_2"),
            "layer 'encoder/block_2': does not exist; did you mean "
            "'encoder/block_0' or 'encoder/block_01'");
  EXPECT_EQ(failure("a quite different name"),
            "layer 'a quite different name': does not exist");
  Result<LayerTypes> none = findLayer({}, "head");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().toString(),
            "layer 'head': does not exist: the model has no layer paths");
}

TEST(Layers, AmountsThatDoNotFitStayAtTheLargest) {
  std::vector<LayerTypes> layers = {layer("a", {{"f32", 1, INT64_MAX}}, {}),
                                    layer("b", {{"f32", INT64_MAX, 1}}, {})};
  EXPECT_EQ(findLayer(layers, "")->compute,
            (Shares{{"f32", INT64_MAX, INT64_MAX}}));
}

TEST(Layers, AnExecutableIsAskedByPath) {
  Program program;
  program.name = "main";
  program.layers = makeLayers();
  Result<Executable> model = Executable::create(
      Device::null(), std::make_shared<const Program>(program));
  ASSERT_TRUE(model.ok()) << model.status().toString();
  EXPECT_EQ(model->layer("head")->computeType(), "f32");
  EXPECT_FALSE(model->layer("haed").ok());
}
