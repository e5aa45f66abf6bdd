//===- TypedLayersTest.cpp - types of the layers of a model ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graphs are as after precision assignment: inserted casts carry no
// decision.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/LayerTypeSummary.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {

class TypedLayersTest : public ::testing::Test {
protected:
  TypedLayersTest() { context.loadDialect<MpcDialect, func::FuncDialect>(); }

  func::FuncOp parse(const std::string &text) {
    modules.push_back(parseSourceString<ModuleOp>(text, &context));
    EXPECT_TRUE(modules.back());
    return *modules.back()->getOps<func::FuncOp>().begin();
  }

  /// The layers of `typed`, which was imported as `imported`.
  std::vector<LayerTypes> layers(const std::string &typed,
                                 const std::string &imported) {
    llvm::Expected<Policy> policy = Policy::load("mixed_bfloat16");
    EXPECT_TRUE(bool(policy));
    return typedLayers(parse(typed), LayerPaths(parse(imported)), *policy);
  }
  std::vector<LayerTypes> layers(const std::string &typed) {
    return layers(typed, typed);
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};

/// "bf16:1:8192 f32:2:0".
std::string text(ArrayRef<TypeShare> amounts) {
  std::string joined;
  for (const TypeShare &amount : amounts)
    joined += (joined.empty() ? "" : " ") + amount.type + ":" +
              std::to_string(amount.count) + ":" +
              std::to_string(amount.weight);
  return joined;
}

std::string text(const VariableType &variable) {
  return variable.role + " " + variable.name + " " + variable.type + " in " +
         llvm::join(variable.stored, ",");
}

std::string paths(ArrayRef<LayerTypes> layers) {
  std::string joined;
  for (const LayerTypes &layer : layers)
    joined += "[" + layer.path + "]";
  return joined;
}

/// A dense layer in bf16 whose bias and activation are f32, then a softmax.
const std::string kForward = R"(
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x4xf32> {
  %w = mpc.constant dense<1.0> : tensor<16x4xbf16> {mpc.narrowing = #mpc.narrowing<count = 64, overflowed = 0, flushed = 0, max_error = 0.0 : f64, rms_error = 0.0 : f64>} loc("w")
  %b = mpc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> loc("b")
  %half = mpc.constant dense<0.5> : tensor<f32>
  %c = mpc.cast %x : tensor<8x16xf32> to tensor<8x16xbf16>
  %0 = mpc.matmul %c, %w {mpc.layer = "net/dense"} : (tensor<8x16xbf16>, tensor<16x4xbf16>) -> tensor<8x4xf32> loc("matmul")
  %1 = mpc.add %0, %b {mpc.layer = "net/dense"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> loc("bias")
  %2 = mpc.mul %1, %half {mpc.layer = "net/dense"} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32> loc("half")
  %n = mpc.cast %2 : tensor<8x4xf32> to tensor<8x4xbf16>
  %w0 = mpc.cast %n : tensor<8x4xbf16> to tensor<8x4xf32>
  %3 = mpc.softmax %w0 axis(1) {mpc.layer = "net/softmax"} : tensor<8x4xf32> loc("softmax")
  %4 = mpc.neg %3 : tensor<8x4xf32> loc("neg")
  return %4 : tensor<8x4xf32>
})";

TEST_F(TypedLayersTest, ContractionsDecideWhatALayerComputesIn) {
  std::vector<LayerTypes> found = layers(kForward);
  ASSERT_EQ(paths(found), "[net/dense][net/softmax][]");
  EXPECT_EQ(text(found[0].compute), "bf16:1:1024 f32:2:0");
  EXPECT_EQ(text(found[1].compute), "f32:1:0");
  EXPECT_EQ(text(found[2].compute), "f32:1:0");
  EXPECT_EQ(found[0].policy, "mixed_bfloat16");
  EXPECT_EQ(text(found[0].gradient), "");
}

TEST_F(TypedLayersTest, WhatOthersReadIsStoredAsItsReadersShareIt) {
  std::vector<LayerTypes> found = layers(kForward);
  ASSERT_EQ(found.size(), 3u);
  // The f32 result of the matmul is internal and not stored.
  EXPECT_EQ(text(found[0].storage), "bf16:1:64");
  EXPECT_EQ(text(found[1].storage), "f32:1:128");
}

TEST_F(TypedLayersTest, VariablesHaveTheStorageTypeOfThePolicy) {
  std::vector<LayerTypes> found = layers(kForward);
  ASSERT_EQ(found[0].variables.size(), 2u); // a scalar is a literal
  EXPECT_EQ(text(found[0].variables[0]), "constant w f32 in bf16");
  EXPECT_EQ(text(found[0].variables[1]), "constant b f32 in f32");
}

TEST_F(TypedLayersTest, AnOpRepresentsTheLayersOfItsNodes) {
  // A merged matmul of two layers and a layer whose op was removed.
  std::vector<LayerTypes> found = layers(R"(
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x {mpc.layer = "attention"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(fused["query", "key", "shared"])
  return %0 : tensor<4x4xf32>
})",
                                         R"(
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x {mpc.layer = "attention/q"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("query")
  %1 = mpc.matmul %x, %x {mpc.layer = "attention/k"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("key")
  %2 = mpc.add %0, %1 {mpc.layer = "attention"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("shared")
  %3 = mpc.add %0, %2 {mpc.layer = "norm"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("shared")
  return %3 : tensor<4x4xf32>
})");
  ASSERT_EQ(paths(found), "[attention/q][attention/k][attention][norm]");
  for (unsigned i : {0, 1, 2}) {
    EXPECT_EQ(text(found[i].compute), "f32:1:128") << found[i].path;
    EXPECT_EQ(text(found[i].storage), "f32:1:64") << found[i].path;
  }
  // Two layers have a node of that name, so the name is ambiguous.
  EXPECT_EQ(text(found[3].compute), "");
  EXPECT_EQ(text(found[3].storage), "");
}

TEST_F(TypedLayersTest, WhatOnlyMovesCountsWhereThereIsNothingElse) {
  std::vector<LayerTypes> found = layers(R"(
func.func @main(%x: tensor<4x4xf16>, %i: tensor<4xi64>) -> (tensor<4x4xf16>, tensor<4xi64>) {
  %0 = mpc.transpose %x [1, 0] {mpc.layer = "moves"} : tensor<4x4xf16> to tensor<4x4xf16>
  %1 = mpc.add %i, %i {mpc.layer = "integers"} : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %0, %1 : tensor<4x4xf16>, tensor<4xi64>
})");
  ASSERT_EQ(paths(found), "[moves][integers]");
  EXPECT_EQ(text(found[0].compute), "f16:1:0");
  EXPECT_EQ(text(found[0].storage), "f16:1:32");
  EXPECT_EQ(text(found[1].compute), "i64:1:0");
  EXPECT_EQ(text(found[1].storage), "i64:1:32");
}

TEST_F(TypedLayersTest, AModeOfComputingIsNamed) {
  std::vector<LayerTypes> found = layers(R"(
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x compute(tf32) {mpc.layer = "dense"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
})");
  EXPECT_EQ(text(found[0].compute), "tf32:1:128");
}

/// A step: the loss is the mean of x * w, w is read through its 16-bit copy.
const std::string kStep = R"(
func.func @main(%x: tensor<4x4xbf16> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<4x4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"},
                %h: tensor<4x4xbf16> {mpc.role = #mpc.role<parameter_copy>, mpc.name = "w.copy"},
                %g: tensor<4xf32> {mpc.role = #mpc.role<statistics>, mpc.name = "mean"})
    -> (tensor<f32> {mpc.role = #mpc.role<loss>, mpc.name = "loss"},
        tensor<4x4xf32> {mpc.role = #mpc.role<output>, mpc.name = "w.gradient"}) {
  %0 = mpc.matmul %x, %h {mpc.layer = "dense"} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %1 = mpc.sub %0, %g {mpc.layer = "dense"} : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mpc.reduce_mean %1 axes([0, 1]) : tensor<4x4xf32> -> tensor<f32>
  %3 = mpc.transpose %x [1, 0] {mpc.layer = "dense"} : tensor<4x4xbf16> to tensor<4x4xbf16>
  %4 = mpc.matmul %3, %x {mpc.layer = "dense"} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %5 = mpc.mul %4, %4 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %5 : tensor<f32>, tensor<4x4xf32>
})";

TEST_F(TypedLayersTest, GradientsAreDistinguishedFromTheForwardPass) {
  std::vector<LayerTypes> found = layers(kStep);
  ASSERT_EQ(paths(found), "[dense][]");
  EXPECT_EQ(text(found[0].compute), "bf16:1:128 f32:1:0");
  EXPECT_EQ(text(found[0].gradient), "bf16:1:128");
  EXPECT_EQ(text(found[0].storage), "f32:1:64");
  // Ops outside of all layers and of the forward pass are not counted.
  EXPECT_EQ(text(found[1].compute), "f32:1:0");
  EXPECT_EQ(text(found[1].gradient), "");
}

TEST_F(TypedLayersTest, AMasterFollowsItsCopy) {
  std::vector<LayerTypes> found = layers(kStep);
  ASSERT_EQ(found[0].variables.size(), 2u);
  EXPECT_EQ(text(found[0].variables[0]), "parameter w f32 in f32,bf16");
  EXPECT_EQ(text(found[0].variables[1]), "statistics mean f32 in f32");
}

TEST_F(TypedLayersTest, AnUpdateAloneHasNoLayers) {
  EXPECT_EQ(paths(layers(R"(
func.func @main(%x: tensor<4xf32>)
    -> (tensor<4xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"}) {
  %0 = mpc.neg %x {mpc.layer = "dense"} : tensor<4xf32>
  return %0 : tensor<4xf32>
})")),
            "");
}

TEST_F(TypedLayersTest, LowPrecisionVariablesOfALayerAreLowPrecision) {
  llvm::Expected<Policy> policy =
      Policy::parse(R"({"name": "p", "extends": "keras_mixed_bfloat16",
                        "layers": {"net/dense": "bfloat16"}})",
                    "test.json");
  ASSERT_TRUE(bool(policy));
  std::vector<LayerTypes> found =
      typedLayers(parse(kForward), LayerPaths(parse(kForward)), *policy);
  EXPECT_EQ(found[0].policy, "bfloat16");
  EXPECT_EQ(text(found[0].variables[0]), "constant w bf16 in bf16");
  EXPECT_EQ(found[1].policy, "p");
}

} // namespace
