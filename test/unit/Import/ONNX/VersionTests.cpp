//===- VersionTests.cpp - operators that differ between opsets ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Reference/Interpreter.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

namespace {

class Version : public ::testing::Test {
protected:
  /// Imports and runs `b` on one input; the elements of the first result.
  std::vector<double> run(const ModelBuilder &b,
                          const std::vector<double> &input) {
    if (!import.run(b)) {
      ADD_FAILURE() << import.firstError();
      return {};
    }
    reference::Tensor tensor(mlir::cast<mlir::RankedTensorType>(
        import.main().getArgumentTypes()[0]));
    EXPECT_EQ(tensor.size(), int64_t(input.size()));
    llvm::copy(input, tensor.floats().begin());
    auto results = reference::interpret(import.main(), tensor);
    if (mlir::failed(results)) {
      ADD_FAILURE() << "the interpreter fails";
      return {};
    }
    return results->front().floats().vec();
  }

  Import import;
};

/// x -> op -> y.
mpc_onnx::NodeProto &unary(ModelBuilder &b, const std::string &op,
                           const std::vector<int64_t> &shape,
                           const ModelBuilder::Names &more = {}) {
  b.input("x", shape);
  b.output("y");
  ModelBuilder::Names inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return b.node(op, inputs, {"y"});
}

} // namespace

// Exponentials and their sum would lose half of the f16 mantissa bits.
TEST_F(Version, SoftmaxOf16BitsComputesInF32) {
  ModelBuilder b(13);
  b.input("x", {2, 8}, onnx::kFloat16);
  b.output("y", {2, 8}, onnx::kFloat16);
  b.node("Softmax", {"x"}, {"y"});
  ASSERT_TRUE(import.run(b)) << import.firstError();
  import.main().walk([](SoftmaxOp op) {
    EXPECT_TRUE(mlir::getElementTypeOrSelf(op.getType()).isF32());
  });
}

// Until 12 the softmax of [2, 2, 2] at axis 1 runs over rows of four.
TEST_F(Version, SoftmaxSawAMatrixUntil12) {
  for (int64_t opset : {11, 13}) {
    ModelBuilder b(opset);
    ModelBuilder::intAttr(unary(b, "Softmax", {2, 2, 2}), "axis", 1);
    std::vector<double> y = run(b, std::vector<double>(8, 3.0));
    ASSERT_EQ(y.size(), 8u);
    EXPECT_NEAR(y[0], opset == 11 ? 0.25 : 0.5, 1e-12);
  }
}

TEST_F(Version, SoftmaxDefaultAxis) {
  ModelBuilder old(11), now(13);
  unary(old, "Softmax", {2, 1, 4});
  unary(now, "Softmax", {2, 1, 4});
  EXPECT_NEAR(run(old, std::vector<double>(8, 1))[0], 0.25, 1e-12);
  EXPECT_NEAR(run(now, std::vector<double>(8, 1))[0], 0.25, 1e-12);
}

TEST_F(Version, ClipBoundsMovedToInputs) {
  ModelBuilder old(10), now(13);
  mpc_onnx::NodeProto &node = unary(old, "Clip", {4});
  ModelBuilder::attribute(node, "min", 1).set_f(-1);
  ModelBuilder::attribute(node, "max", 1).set_f(1);
  now.floats("low", {}, {-1});
  now.floats("high", {}, {1});
  unary(now, "Clip", {4}, {"low", "high"});
  std::vector<double> expected = {-1, -0.5, 0.5, 1};
  EXPECT_EQ(run(old, {-3, -0.5, 0.5, 3}), expected);
  EXPECT_EQ(run(now, {-3, -0.5, 0.5, 3}), expected);
}

TEST_F(Version, ClipWithOneBound) {
  ModelBuilder b(13);
  b.floats("high", {}, {1});
  unary(b, "Clip", {2}, {"", "high"});
  EXPECT_EQ(run(b, {-3, 3}), (std::vector<double>{-3, 1}));
}

TEST_F(Version, ReduceAxesMovedToInputs) {
  ModelBuilder sum11(11), sum13(13), mean13(13), mean18(18);
  ModelBuilder::intsAttr(unary(sum11, "ReduceSum", {2, 3}), "axes", {1});
  sum13.ints("axes", {1});
  unary(sum13, "ReduceSum", {2, 3}, {"axes"});
  ModelBuilder::intsAttr(unary(mean13, "ReduceMean", {2, 3}), "axes", {-1});
  mean18.ints("axes", {-1});
  unary(mean18, "ReduceMean", {2, 3}, {"axes"});
  std::vector<double> x = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(run(sum11, x), (std::vector<double>{6, 15}));
  EXPECT_EQ(run(sum13, x), (std::vector<double>{6, 15}));
  EXPECT_EQ(run(mean13, x), (std::vector<double>{2, 5}));
  EXPECT_EQ(run(mean18, x), (std::vector<double>{2, 5}));
}

TEST_F(Version, ReduceWithEmptyAxesMayDoNothing) {
  ModelBuilder all(13), none(13);
  all.ints("axes", {});
  unary(all, "ReduceSum", {2}, {"axes"});
  none.ints("axes", {});
  ModelBuilder::intAttr(unary(none, "ReduceSum", {2}, {"axes"}),
                        "noop_with_empty_axes", 1);
  EXPECT_EQ(run(all, {1, 2}), (std::vector<double>{3}));
  EXPECT_EQ(run(none, {1, 2}), (std::vector<double>{1, 2}));
}

TEST_F(Version, SplitMayEndWithASmallerPart) {
  for (int64_t opset : {13, 18}) {
    ModelBuilder b(opset);
    b.input("x", {7});
    for (const char *name : {"a", "b", "c"})
      b.output(name);
    mpc_onnx::NodeProto &node = b.node("Split", {"x"}, {"a", "b", "c"});
    if (opset == 18)
      ModelBuilder::intAttr(node, "num_outputs", 3);
    EXPECT_EQ(bool(import.run(b)), opset == 18);
    if (opset == 18) {
      EXPECT_EQ(import.resultShape(2), (std::vector<int64_t>{1}));
    } else {
      EXPECT_NE(import.firstError().find("equal parts"), std::string::npos);
    }
  }
}

TEST_F(Version, SliceTakesInputsFrom10) {
  ModelBuilder old(9), now(13);
  mpc_onnx::NodeProto &node = unary(old, "Slice", {5});
  ModelBuilder::intsAttr(node, "starts", {1});
  ModelBuilder::intsAttr(node, "ends", {1000});
  now.ints("starts", {-1});
  now.ints("ends", {-1000});
  now.ints("axes", {0});
  now.ints("steps", {-2});
  unary(now, "Slice", {5}, {"starts", "ends", "axes", "steps"});
  EXPECT_EQ(run(old, {0, 1, 2, 3, 4}), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(run(now, {0, 1, 2, 3, 4}), (std::vector<double>{4, 2, 0}));
}

TEST_F(Version, PadTakesInputsFrom11) {
  ModelBuilder old(10), now(18);
  mpc_onnx::NodeProto &node = unary(old, "Pad", {2});
  ModelBuilder::intsAttr(node, "pads", {1, 0});
  ModelBuilder::attribute(node, "value", 1).set_f(9);
  now.ints("pads", {1, 0});
  now.floats("value", {}, {9});
  now.ints("axes", {-1});
  unary(now, "Pad", {2}, {"pads", "value", "axes"});
  EXPECT_EQ(run(old, {1, 2}), (std::vector<double>{9, 1, 2}));
  EXPECT_EQ(run(now, {1, 2}), (std::vector<double>{9, 1, 2}));
}

// Version 18 scales groups, version 21 channels.
TEST_F(Version, GroupNormalizationScale) {
  for (int64_t opset : {18, 21}) {
    ModelBuilder b(opset);
    std::vector<float> scale =
        opset == 18 ? std::vector<float>{1, 2} : std::vector<float>{1, 1, 2, 2};
    int64_t count = int64_t(scale.size());
    b.floats("scale", {count}, scale);
    b.floats("bias", {count}, std::vector<float>(scale.size(), 0));
    ModelBuilder::intAttr(
        unary(b, "GroupNormalization", {1, 4, 1}, {"scale", "bias"}),
        "num_groups", 2);
    std::vector<double> y = run(b, {-1, 1, -1, 1});
    ASSERT_EQ(y.size(), 4u);
    EXPECT_NEAR(y[1], 1, 1e-4);
    EXPECT_NEAR(y[3], 2, 1e-4);
  }
}

TEST_F(Version, UpsampleAndTheFirstResize) {
  ModelBuilder upsample(9), resize(10);
  for (ModelBuilder *b : {&upsample, &resize}) {
    b->floats("scales", {3}, {1, 1, 2});
    unary(*b, b == &upsample ? "Upsample" : "Resize", {1, 1, 2}, {"scales"});
    EXPECT_EQ(run(*b, {1, 2}), (std::vector<double>{1, 1, 2, 2}));
  }
}

TEST_F(Version, DropoutIsTheIdentity) {
  ModelBuilder old(10), now(13);
  ModelBuilder::attribute(unary(old, "Dropout", {2}), "ratio", 1).set_f(0.5f);
  now.floats("ratio", {}, {0.5f});
  unary(now, "Dropout", {2}, {"ratio"});
  EXPECT_EQ(run(old, {1, 2}), (std::vector<double>{1, 2}));
  EXPECT_EQ(run(now, {1, 2}), (std::vector<double>{1, 2}));
}
