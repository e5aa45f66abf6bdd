//===- LayerPathTests.cpp - module scopes ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerPath.h"

#include <gtest/gtest.h>

using namespace mpc::onnx;

TEST(LayerPath, FromScopesTakesTheInnermostModule) {
  EXPECT_EQ(layerFromScopes("['', 'bert', 'bert.encoder.layer.0', 'linear_5']"),
            "bert/encoder/layer/0");
  EXPECT_EQ(layerFromScopes("['', '2', 'linear_1']"), "2");
}

TEST(LayerPath, FromScopesOfTheRootIsEmpty) {
  EXPECT_EQ(layerFromScopes("['', 'relu']"), "");
  EXPECT_EQ(layerFromScopes("['relu']"), "");
  EXPECT_EQ(layerFromScopes("[]"), "");
}

TEST(LayerPath, MalformedScopesAreIgnored) {
  EXPECT_EQ(layerFromScopes("['a', 'b"), "");
  EXPECT_EQ(layerFromScopes("a, b"), "");
  EXPECT_EQ(layerFromScopes("[a, b]"), "");
  EXPECT_EQ(layerFromScopes(""), "");
}

TEST(LayerPath, FromNameDropsTheOperator) {
  EXPECT_EQ(layerFromName("/wte/Gather"), "wte");
  EXPECT_EQ(layerFromName("/blocks.0/Mul_5"), "blocks/0");
  EXPECT_EQ(layerFromName("/Shape"), "");
}

TEST(LayerPath, FromNameMergesTheNameOfAList) {
  EXPECT_EQ(layerFromName("/layers/layers.4/bn1/BatchNormalization"),
            "layers/4/bn1");
  EXPECT_EQ(layerFromName("/layer2/layer2.0/downsample/downsample.1/BatchNorm"),
            "layer2/0/downsample/1");
}

TEST(LayerPath, OtherNamesAreNoPaths) {
  EXPECT_EQ(layerFromName("node_linear_5"), "");
  EXPECT_EQ(layerFromName(""), "");
  EXPECT_EQ(layerFromName("/"), "");
}

// Both exporters give one path for the same module.
TEST(LayerPath, ExportersAgree) {
  EXPECT_EQ(layerFromName("/blocks.1/ln1/LayerNormalization"),
            layerFromScopes("['', 'blocks.1', 'blocks.1.ln1', 'layer_norm']"));
}
