//===- SignatureTests.cpp - tests of inputs and of the best policy --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/JIT/BestPolicy.h"
#include "mpc/JIT/Signature.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace mpc;

static ModelSource textOf(const std::string &text) {
  return ModelSource::fromBytes(
      "m.mlir", SourceBytes::copyOf(std::as_bytes(std::span(text))));
}

TEST(SignatureTest, TextsHaveNamesTypesAndShapes) {
  Result<std::vector<ModelInput>> inputs = readInputs(textOf(R"(
func.func @main(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %i: tensor<4xi64> {mpc.role = #mpc.role<input>, mpc.name = "i"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.relu %x : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
})"));
  ASSERT_TRUE(inputs.ok()) << inputs.status().toString();
  ASSERT_EQ(inputs->size(), 2u);
  EXPECT_EQ((*inputs)[0].name, "x");
  EXPECT_EQ((*inputs)[0].element, ElementType::F32);
  EXPECT_EQ((*inputs)[0].shape, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ((*inputs)[0].symbols, (std::vector<std::string>{"", ""}));
  EXPECT_EQ((*inputs)[1].name, "i");
  EXPECT_EQ((*inputs)[1].element, ElementType::I64);
}

TEST(SignatureTest, SymbolsAreTheCallers) {
  const char *root = std::getenv("MPC_SOURCE_DIR");
  if (!root)
    GTEST_SKIP() << "MPC_SOURCE_DIR names no source tree";
  Result<std::vector<ModelInput>> inputs =
      readInputs(std::string(root) + "/test/Inputs/onnx/shape-chain.onnx");
  ASSERT_TRUE(inputs.ok()) << inputs.status().toString();
  ASSERT_EQ(inputs->size(), 1u);
  EXPECT_EQ((*inputs)[0].name, "x");
  EXPECT_EQ((*inputs)[0].shape, (std::vector<int64_t>{-1, 3, 4}));
  EXPECT_EQ((*inputs)[0].symbols, (std::vector<std::string>{"batch", "", ""}));
}

TEST(SignatureTest, WhatIsNoModelIsAnError) {
  EXPECT_EQ(readInputs("/nowhere/m.onnx").status().code(),
            StatusCode::NotFound);
  EXPECT_NE(
      readInputs(textOf("func.func @main(")).status().where().find("m.mlir:1:"),
      std::string::npos);
  std::string bytes = "no model";
  Result<std::vector<ModelInput>> inputs = readInputs(ModelSource::fromBytes(
      "m.onnx", SourceBytes::copyOf(std::as_bytes(std::span(bytes)))));
  EXPECT_NE(inputs.status().text().find("not an ONNX model"),
            std::string::npos);
}

TEST(BestPolicyTest, FollowsTheUnits) {
  EXPECT_EQ(*bestPolicy("cpu:avx2"), "float32");
  EXPECT_EQ(*bestPolicy("cpu:amx"), "mixed_bfloat16");
  EXPECT_EQ(*bestPolicy("cuda:sm_75"), "mixed_float16");
  EXPECT_FALSE(bestPolicy("cpu:mmx").ok());
}
