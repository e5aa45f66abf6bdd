//===- MicrosoftTests.cpp - operators of ONNX Runtime ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On constants: the numbers are what ONNX Runtime gives.
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Reference/Interpreter.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

namespace {

class Microsoft : public ::testing::Test {
protected:
  Microsoft() {
    mpc_onnx::OperatorSetIdProto *own = b.model.add_opset_import();
    own->set_domain("com.microsoft");
    own->set_version(1);
    b.output("y");
  }

  mpc_onnx::NodeProto &node(const std::string &op,
                            const ModelBuilder::Names &inputs) {
    mpc_onnx::NodeProto &made = b.node(op, inputs, {"y"});
    made.set_domain("com.microsoft");
    return made;
  }

  void bytes(const std::string &name, const std::vector<int64_t> &shape,
             const std::string &values) {
    mpc_onnx::TensorProto &tensor = *b.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::kUint8);
    for (int64_t extent : shape)
      tensor.add_dims(extent);
    tensor.set_raw_data(values);
  }

  void signedBytes(const std::string &name, const std::vector<int64_t> &shape,
                   const std::vector<int8_t> &values) {
    bytes(name, shape, std::string(values.begin(), values.end()));
    b.graph()
        .mutable_initializer(b.graph().initializer_size() - 1)
        ->set_data_type(onnx::kInt8);
  }

  /// An LSTM over three steps, width and hidden width 2, with all inputs of
  /// the operator.
  mpc_onnx::NodeProto &quantizedLstm(const std::string &direction) {
    b.floats("x", {3, 1, 2}, {0.5f, -1, 2, 0.25f, -0.75f, 1.5f});
    signedBytes("w", {1, 2, 8},
                {127, -117, -103, 8, -30, 80, -115, -54, -108, -21, 60, -43,
                 120, -89, 40, -112});
    signedBytes(
        "r", {1, 2, 8},
        {-100, 20, 33, -7, 90, -60, 5, 66, 12, -99, 100, 77, -40, 31, -110, 8});
    b.floats("bias", {1, 16},
             {0.1f, -0.2f, 0.3f, 0.05f, 0.4f, -0.1f, 0.2f, 0.15f, 0, 0.1f,
              -0.1f, 0.2f, 0.05f, 0, 0.3f, -0.25f});
    b.floats("h", {1, 1, 2}, {0.25f, -0.5f});
    b.floats("c", {1, 1, 2}, {1, -0.25f});
    b.floats("p", {1, 6}, {0.5f, -0.25f, 0.125f, 1, -0.5f, 0.75f});
    b.floats("ws", {1}, {0.01f});
    signedBytes("wz", {1}, {3});
    b.floats("rs", {1}, {0.02f});
    signedBytes("rz", {1}, {-5});
    mpc_onnx::NodeProto &made =
        node("DynamicQuantizeLSTM", {"x", "w", "r", "bias", "", "h", "c", "p",
                                     "ws", "wz", "rs", "rz"});
    ModelBuilder::intAttr(made, "hidden_size", 2);
    ModelBuilder::stringAttr(made, "direction", direction);
    return made;
  }

  std::vector<double> run() {
    if (!import.run(b)) {
      ADD_FAILURE() << import.firstError();
      return {};
    }
    auto results = reference::interpret(import.main(), {});
    return mlir::succeeded(results) ? results->front().floats().vec()
                                    : std::vector<double>();
  }

  ModelBuilder b;
  Import import;
};

} // namespace

// Two columns of three weights in a block of four: low nibbles come first, and
// the padding after the third weight is ignored.
TEST_F(Microsoft, MatMulNBitsUnpacksNibbles) {
  b.floats("x", {1, 3}, {1, 10, 100});
  bytes("w", {2, 1, 2}, std::string("\x98\xfa\x07\x01", 4));
  b.floats("scales", {2}, {1, 0.5f});
  mpc_onnx::NodeProto &product = node("MatMulNBits", {"x", "w", "scales"});
  ModelBuilder::intAttr(product, "K", 3);
  ModelBuilder::intAttr(product, "N", 2);
  ModelBuilder::intAttr(product, "bits", 4);
  ModelBuilder::intAttr(product, "block_size", 4);
  // Nibbles 8, 9, 10 and 7, 0, 1, less the middle 8.
  EXPECT_EQ(run(), (std::vector<double>{210, -390.5}));
}

TEST_F(Microsoft, MatMulNBitsTakesPackedZeroPoints) {
  b.floats("x", {1, 3}, {1, 10, 100});
  bytes("w", {2, 1, 2}, std::string("\x98\xfa\x07\x01", 4));
  b.floats("scales", {2}, {1, 0.5f});
  bytes("zero", {2}, std::string("\x09\x01", 2));
  mpc_onnx::NodeProto &product =
      node("MatMulNBits", {"x", "w", "scales", "zero"});
  ModelBuilder::intAttr(product, "K", 3);
  ModelBuilder::intAttr(product, "N", 2);
  ModelBuilder::intAttr(product, "bits", 4);
  ModelBuilder::intAttr(product, "block_size", 4);
  EXPECT_EQ(run(), (std::vector<double>{99, -2}));
}

TEST_F(Microsoft, FusedMatMulTransposesAndScales) {
  b.floats("a", {2, 1}, {1, 2});
  b.floats("b", {2, 2}, {3, 4, 5, 6});
  mpc_onnx::NodeProto &product = node("FusedMatMul", {"a", "b"});
  ModelBuilder::intAttr(product, "transA", 1);
  ModelBuilder::intAttr(product, "transB", 1);
  ModelBuilder::attribute(product, "alpha", 1).set_f(0.5f);
  EXPECT_EQ(run(), (std::vector<double>{5.5, 8.5}));
}

// The root of the mean square of (3, 4) + (0, 0) is 5 / sqrt(2).
TEST_F(Microsoft, SkipSimplifiedNormDividesByTheRoot) {
  b.floats("x", {1, 2}, {1, 4});
  b.floats("skip", {1, 2}, {2, 0});
  b.floats("scale", {2}, {5, 5});
  node("SkipSimplifiedLayerNormalization", {"x", "skip", "scale"});
  std::vector<double> y = run();
  ASSERT_EQ(y.size(), 2u);
  EXPECT_NEAR(y[0] * y[0], 18, 1e-4);
  EXPECT_NEAR(y[1] * y[1], 32, 1e-4);
}

TEST_F(Microsoft, EmbedLayerNormWithoutSegments) {
  b.ints("ids", {1, 0}).add_dims(1);
  mpc_onnx::TensorProto &ids = *b.graph().mutable_initializer(0);
  ids.set_dims(0, 1);
  ids.set_dims(1, 2);
  b.floats("words", {2, 2}, {0, 2, 1, 5});
  b.floats("positions", {3, 2}, {0, 0, 4, 0, 9, 9});
  b.floats("scale", {2}, {1, 1});
  b.floats("bias", {2}, {0, 10});
  node("EmbedLayerNormalization",
       {"ids", "", "words", "positions", "", "scale", "bias"});
  std::vector<double> y = run();
  ASSERT_EQ(y.size(), 4u);
  EXPECT_NEAR(y[0], -1, 1e-6);
  EXPECT_NEAR(y[1], 11, 1e-6);
  EXPECT_NEAR(y[2], 1, 1e-6);
  EXPECT_NEAR(y[3], 9, 1e-6);
}

static void expectNear(const std::vector<double> &actual,
                       const std::vector<double> &expected, double error) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], error) << i;
}

// The bound is far below what a number that is quantised otherwise changes.
TEST_F(Microsoft, QuantizedLstmRunsForward) {
  quantizedLstm("forward");
  expectNear(run(),
             {0.110986799, 0.192037016, -0.100582153, 0.166392773, -0.35795486,
              -0.137913123},
             1e-6);
}

TEST_F(Microsoft, QuantizedLstmRunsBackward) {
  quantizedLstm("reverse");
  expectNear(run(),
             {-0.0251334403, 0.00334852072, -0.0157305133, -0.168066487,
              0.576955855, -0.0713570192},
             1e-6);
}

TEST_F(Microsoft, QuantizedLstmRefusesANegativeClip) {
  ModelBuilder::attribute(quantizedLstm("forward"), "clip", 1).set_f(-1);
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("attribute 'clip' is -1"),
            std::string::npos)
      << import.firstError();
}

// A tensor of zeros has the scale 1, as ONNX Runtime gives it.
TEST_F(Microsoft, ZerosAreQuantisedWithScaleOne) {
  b.floats("x", {2}, {0, 0});
  b.node("DynamicQuantizeLinear", {"x"}, {"q", "y", "z"});
  EXPECT_EQ(run(), (std::vector<double>{1}));
}
