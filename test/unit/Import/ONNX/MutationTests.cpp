//===- MutationTests.cpp - damaged files never crash the importer ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"

#include "ModelBuilder.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <random>

using namespace mpc;
using namespace mpc::testing;

/// A small network with the features that a parser can stumble over: raw and
/// typed data, attributes of every kind, shape arithmetic, a local function, a
/// branch and a loop.
static std::string fixture() {
  ModelBuilder b;
  b.input("x", {2, 3, 6, 6});
  b.floats("w", {4, 3, 3, 3}, std::vector<float>(108, 0.25f));
  b.floats("b", {4}, {1, 2, 3, 4});
  b.ints("axes", {2, 3});
  b.ints("split", {2, 2});
  mpc_onnx::NodeProto &conv = b.node("Conv", {"x", "w", "b"}, {"c"});
  ModelBuilder::intsAttr(conv, "pads", {1, 1, 1, 1});
  ModelBuilder::intsAttr(conv, "strides", {2, 2});
  ModelBuilder::stringAttr(conv, "auto_pad", "NOTSET");
  mpc_onnx::NodeProto &leaky = b.node("LeakyRelu", {"c"}, {"l"});
  ModelBuilder::attribute(leaky, "alpha", 1).set_f(0.125f);
  b.node("Split", {"l", "split"}, {"l0", "l1"}).set_name("/head/split.0/Split");
  ModelBuilder::intAttr(*b.graph().mutable_node(2), "axis", 1);
  b.node("Concat", {"l1", "l0"}, {"joined"});
  ModelBuilder::intAttr(*b.graph().mutable_node(3), "axis", 1);
  b.node("Shape", {"joined"}, {"shape"});
  b.ints("zero", {0});
  b.node("Gather", {"shape", "zero"}, {"batch"});
  b.ints("minus", {-1});
  mpc_onnx::NodeProto &concat =
      b.node("Concat", {"batch", "minus"}, {"target"});
  ModelBuilder::intAttr(concat, "axis", 0);
  b.node("Reshape", {"joined", "target"}, {"flat"});

  mpc_onnx::FunctionProto &function = *b.model.add_functions();
  function.set_name("Scaled");
  function.set_domain("local");
  function.add_input("value");
  function.add_output("scaled");
  function.add_attribute("factor");
  function.add_opset_import()->set_version(17);
  mpc_onnx::NodeProto &constant = ModelBuilder::fillNode(
      *function.add_node(), "Constant", {}, {"factor_value"});
  ModelBuilder::attribute(constant, "value_float", 1)
      .set_ref_attr_name("factor");
  ModelBuilder::fillNode(*function.add_node(), "Mul", {"value", "factor_value"},
                         {"scaled"});
  mpc_onnx::NodeProto &call = b.node("Scaled", {"flat"}, {"s"});
  call.set_domain("local");
  ModelBuilder::attribute(call, "factor", 1).set_f(0.5f);

  mpc_onnx::TensorProto &condition = *b.graph().add_initializer();
  condition.set_name("condition");
  condition.set_data_type(onnx::kBool);
  condition.set_raw_data(std::string(1, '\1'));
  mpc_onnx::NodeProto &branch = b.node("If", {"condition"}, {"chosen"});
  for (const char *name : {"then_branch", "else_branch"}) {
    mpc_onnx::GraphProto &body =
        *ModelBuilder::attribute(branch, name, 5).mutable_g();
    body.set_name(name);
    ModelBuilder::fillNode(*body.add_node(), "Relu", {"s"}, {"inner"});
    body.add_output()->set_name("inner");
  }
  mpc_onnx::NodeProto &softmax = b.node("Softmax", {"chosen"}, {"y"});
  ModelBuilder::intAttr(softmax, "axis", -1);
  b.output("y", {2, 36});
  return b.bytes();
}

namespace {

class Mutation : public ::testing::Test {
protected:
  /// Imports `bytes`; the result is a module that verifies, or a diagnostic.
  void check(const std::string &bytes) {
    Import import;
    mlir::ModuleOp module = import.run(bytes);
    if (module) {
      ++accepted;
      EXPECT_TRUE(mlir::succeeded(mlir::verify(module)));
    } else {
      ++refused;
      EXPECT_FALSE(import.errors.empty());
    }
  }

  int64_t accepted = 0, refused = 0;
};

} // namespace

TEST_F(Mutation, TheFixtureItselfImports) {
  Import import;
  ASSERT_TRUE(import.run(fixture())) << import.firstError();
  EXPECT_EQ(import.count<ConvOp>(), 1);
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{2, 36}));
}

TEST_F(Mutation, TruncatedFiles) {
  std::string whole = fixture();
  for (int64_t i = 0; i < 150; ++i)
    check(whole.substr(0, whole.size() * size_t(i) / 150));
  // Cut between top-level fields a file may still parse, but lacks its opset.
  EXPECT_GE(refused, 145);
}

TEST_F(Mutation, FlippedBits) {
  std::string whole = fixture();
  std::mt19937_64 random(7);
  for (int64_t i = 0; i < 300; ++i) {
    std::string bytes = whole;
    for (int64_t flips = 1 + i % 4; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= char(1 << (random() % 8));
    check(bytes);
  }
  EXPECT_EQ(accepted + refused, 300);
  EXPECT_GT(accepted, 0); // bits of weights
  EXPECT_GT(refused, 100);
}

TEST_F(Mutation, OverwrittenRuns) {
  std::string whole = fixture();
  std::mt19937_64 random(11);
  for (int64_t i = 0; i < 300; ++i) {
    std::string bytes = whole;
    size_t start = random() % bytes.size();
    size_t length = std::min<size_t>(1 + random() % 16, bytes.size() - start);
    // Runs of ones and of random bytes give huge varints and lengths.
    for (size_t k = 0; k < length; ++k)
      bytes[start + k] = i % 2 ? char(0xff) : char(random());
    check(bytes);
  }
  EXPECT_EQ(accepted + refused, 300);
  EXPECT_GT(refused, 100);
}
