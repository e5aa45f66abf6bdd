//===- BadInputTests.cpp - diagnostics of invalid models ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

/// The import fails with exactly one located error that contains `text`.
static void expectError(const ModelBuilder &builder, const std::string &text) {
  Import import;
  EXPECT_FALSE(import.run(builder));
  ASSERT_EQ(import.errors.size(), 1u) << "first error: " << import.firstError();
  EXPECT_NE(import.errors[0].find(text), std::string::npos) << import.errors[0];
  EXPECT_EQ(import.unlocated, 0);
}

/// x [2, 3] -> op -> y, with `op` still to be completed.
static mpc_onnx::NodeProto &unaryModel(ModelBuilder &b, const std::string &op) {
  b.input("x", {2, 3});
  b.output("y");
  return b.node(op, {"x"}, {"y"});
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

TEST(BadInput, EmptyFile) {
  Import import;
  EXPECT_FALSE(import.run(std::string()));
  EXPECT_NE(import.firstError().find("not an ONNX model"), std::string::npos);
}

TEST(BadInput, RandomBytes) {
  Import import;
  EXPECT_FALSE(import.run(std::string(4096, '\xff')));
  EXPECT_NE(import.firstError().find("not an ONNX model"), std::string::npos);
}

TEST(BadInput, MissingFile) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          text = diagnostic.str();
                                          return mlir::success();
                                        });
  EXPECT_FALSE(importOnnxFile("/nonexistent/model.onnx", {}, &context));
  EXPECT_NE(text.find("cannot read the model"), std::string::npos) << text;
}

TEST(BadInput, UnknownIrVersion) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.model.set_ir_version(99);
  expectError(b, "IR version 99");
}

TEST(BadInput, OpsetTooNew) {
  ModelBuilder b(99);
  unaryModel(b, "Relu");
  expectError(b, "needs opset 99");
}

TEST(BadInput, TwoOpsets) {
  ModelBuilder b(13);
  unaryModel(b, "Relu");
  b.model.add_opset_import()->set_version(14);
  expectError(b, "two versions of the default domain, 13 and 14");
}

TEST(BadInput, NoOpset) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.model.clear_opset_import();
  expectError(b, "imports no version of the default domain");
}

TEST(BadInput, NoGraph) {
  ModelBuilder b;
  b.model.clear_graph();
  expectError(b, "no graph");
}

// Protobuf bounds the nesting of messages, and so of subgraphs.
TEST(BadInput, SubgraphsNestedTooDeep) {
  ModelBuilder b;
  b.input("x", {1});
  b.output("y");
  mpc_onnx::GraphProto *graph = &b.graph();
  for (int depth = 0; depth < 400; ++depth) {
    mpc_onnx::NodeProto &node =
        ModelBuilder::fillNode(*graph->add_node(), "If", {"x"}, {"y"});
    graph = ModelBuilder::attribute(node, "then_branch", 5).mutable_g();
  }
  expectError(b, "not an ONNX model");
}

//===----------------------------------------------------------------------===//
// Names and order
//===----------------------------------------------------------------------===//

TEST(BadInput, Cycle) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("z");
  b.node("Add", {"x", "z"}, {"y"});
  b.node("Relu", {"y"}, {"z"});
  expectError(b, "part of a cycle through its input 'z'");
}

TEST(BadInput, SelfCycle) {
  ModelBuilder b;
  b.output("y");
  b.node("Relu", {"y"}, {"y"});
  expectError(b, "part of a cycle");
}

TEST(BadInput, UnsortedNodes) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("z");
  b.node("Relu", {"y"}, {"z"});
  b.node("Abs", {"x"}, {"y"});
  expectError(b, "produced by the later node 'Abs_node'");
}

TEST(BadInput, UnknownName) {
  ModelBuilder b;
  b.output("y");
  b.node("Relu", {"nowhere"}, {"y"});
  expectError(b, "input 'nowhere' is no graph input");
}

TEST(BadInput, UnknownGraphOutput) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.output("nowhere");
  expectError(b, "graph output 'nowhere'");
}

TEST(BadInput, DuplicateOutput) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.node("Abs", {"x"}, {"y"});
  expectError(b, "output 'y' is already the name of another value");
}

TEST(BadInput, OutputNamedLikeInput) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("x");
  b.node("Relu", {"x"}, {"x"});
  expectError(b, "output 'x' is already the name of another value");
}

TEST(BadInput, DuplicateInput) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.input("x", {2, 3});
  expectError(b, "two inputs named 'x'");
}

TEST(BadInput, DuplicateInitializer) {
  ModelBuilder b;
  b.output("w");
  b.floats("w", {1}, {1});
  b.floats("w", {1}, {2});
  expectError(b, "two initializers named 'w'");
}

TEST(BadInput, DuplicateAttribute) {
  ModelBuilder b;
  mpc_onnx::NodeProto &node = unaryModel(b, "Softmax");
  ModelBuilder::intAttr(node, "axis", 0);
  ModelBuilder::intAttr(node, "axis", 1);
  expectError(b, "attribute 'axis' is given twice");
}

//===----------------------------------------------------------------------===//
// Operators and attributes
//===----------------------------------------------------------------------===//

TEST(BadInput, UnknownOperator) {
  ModelBuilder b;
  unaryModel(b, "Frobnicate");
  expectError(b, "operator 'Frobnicate' is not supported");
}

TEST(BadInput, ForeignDomain) {
  ModelBuilder b;
  unaryModel(b, "FusedGemm").set_domain("com.microsoft");
  expectError(b, "of domain 'com.microsoft' is not supported; export");
}

TEST(BadInput, OperatorNewerThanOpset) {
  ModelBuilder b(13);
  unaryModel(b, "Gelu");
  expectError(b, "supported from opset 20 on, but the model uses opset 13");
}

TEST(BadInput, UnsupportedAttribute) {
  ModelBuilder b;
  ModelBuilder::intAttr(unaryModel(b, "Relu"), "slope", 1);
  expectError(b, "Relu: attribute 'slope' is not supported");
}

TEST(BadInput, AttributeOfWrongType) {
  ModelBuilder b;
  ModelBuilder::stringAttr(unaryModel(b, "Softmax"), "axis", "last");
  expectError(b, "attribute 'axis' has the wrong type, expected an integer");
}

TEST(BadInput, UnknownAttributeType) {
  ModelBuilder b;
  ModelBuilder::attribute(unaryModel(b, "Softmax"), "axis", 77);
  expectError(b, "unknown type 77");
}

TEST(BadInput, TooManyInputs) {
  ModelBuilder b;
  unaryModel(b, "Relu").add_input("x");
  expectError(b, "it has 2 inputs, expected 1");
}

TEST(BadInput, MissingInput) {
  ModelBuilder b;
  unaryModel(b, "MatMul");
  expectError(b, "input 1 is missing, expected 2 inputs");
}

TEST(BadInput, AxisOutsideRank) {
  ModelBuilder b;
  ModelBuilder::intAttr(unaryModel(b, "Softmax"), "axis", 2);
  expectError(b, "axis 2 is outside a tensor of 2 dimensions");
}

TEST(BadInput, ConvStrideZero) {
  ModelBuilder b;
  b.input("x", {1, 1, 4, 4});
  b.floats("w", {1, 1, 1, 1}, {1});
  b.output("y");
  ModelBuilder::intsAttr(b.node("Conv", {"x", "w"}, {"y"}), "strides", {0, 1});
  expectError(b, "attribute 'strides' has the entry 0");
}

TEST(BadInput, ConvWindowLargerThanInput) {
  ModelBuilder b;
  b.input("x", {1, 1, 2, 2});
  b.floats("w", {1, 1, 3, 3}, std::vector<float>(9, 1));
  b.output("y");
  b.node("Conv", {"x", "w"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_FALSE(import.errors.empty());
}

TEST(BadInput, ReshapeWithTwoUnknowns) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.ints("shape", {-1, -1});
  b.output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  expectError(b, "two entries of -1");
}

TEST(BadInput, ReshapeToOtherCount) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.ints("shape", {7});
  b.output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_FALSE(import.errors.empty());
}

TEST(BadInput, GatherIndexOutsideRange) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.ints("index", {5});
  b.output("y");
  b.node("Gather", {"x", "index"}, {"y"});
  expectError(b, "index 5 is outside an extent of 2");
}

TEST(BadInput, LengthOutsideRange) {
  ModelBuilder b;
  b.input("x", {4, 2});
  b.ints("lengths", {4, 5});
  b.output("y");
  b.node("ReverseSequence", {"x", "lengths"}, {"y"});
  expectError(b, "sequence_lens has the entry 5, expected 0 to 4");
}

TEST(BadInput, NegativeWriteIndex) {
  ModelBuilder b(24);
  b.input("x", {1, 4, 3});
  b.input("update", {1, 1, 3});
  b.ints("position", {-1});
  b.output("y");
  b.node("TensorScatter", {"x", "update", "position"}, {"y"});
  expectError(b, "index -1 is outside an extent of 4");
}

TEST(BadInput, ResizeToNothing) {
  ModelBuilder b;
  b.input("x", {1, 1, 2, 2});
  b.ints("sizes", {1, 1, 0, 2});
  b.output("y");
  b.node("Resize", {"x", "", "", "sizes"}, {"y"});
  expectError(b, "sizes has the entry 0, expected a positive number");
}

TEST(BadInput, MixedElementTypes) {
  ModelBuilder b;
  b.input("x", {2});
  b.input("k", {2}, onnx::kInt64);
  b.output("y");
  b.node("Add", {"x", "k"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_FALSE(import.errors.empty());
}

TEST(BadInput, ShapesDoNotBroadcast) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.input("z", {4});
  b.output("y");
  b.node("Add", {"x", "z"}, {"y"});
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_FALSE(import.errors.empty());
}

TEST(BadInput, DeclaredTypeDiffers) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.output("y", {2, 3}, onnx::kInt32);
  b.node("Relu", {"x"}, {"y"});
  expectError(b, "declared with elements of INT32");
}

TEST(BadInput, ShapeDependsOnData) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.input("shape", {1}, onnx::kInt64);
  b.output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  expectError(b, "depends on graph input 'shape'");
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

TEST(BadInput, InputOfUnknownElementType) {
  ModelBuilder b;
  b.input("x", {2}, 8 /* STRING */);
  b.output("x");
  expectError(b, "input 'x' has elements of STRING");
}

TEST(BadInput, InputThatIsASequence) {
  ModelBuilder b;
  mpc_onnx::ValueInfoProto &input = *b.graph().add_input();
  input.set_name("x");
  input.mutable_type()->mutable_sequence_type();
  b.output("x");
  expectError(b, "input 'x' is a value of kind sequence");
}

TEST(BadInput, InputWithNegativeExtent) {
  ModelBuilder b;
  b.input("x", {2});
  b.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-3);
  b.output("x");
  expectError(b, "has a dimension of extent -3");
}

TEST(BadInput, InputOfHugeRank) {
  ModelBuilder b;
  b.input("x", std::vector<int64_t>(100000, 1));
  b.output("x");
  expectError(b, "has 100000 dimensions");
}

TEST(BadInput, InputTooLarge) {
  ModelBuilder b;
  b.input("x", {int64_t(1) << 62, 4});
  b.output("x");
  expectError(b, "input 'x' is too large");
}

TEST(BadInput, UnboundDimension) {
  ModelBuilder b;
  b.input("x", {-1, 3});
  b.output("x");
  expectError(b, "unbound symbolic dimension 'n'; give its extent");
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

TEST(BadInput, RawDataTooShort) {
  ModelBuilder b;
  b.floats("w", {3}, {1, 2});
  b.output("w");
  expectError(b, "'w' has 8 bytes of data, but its shape needs 12");
}

TEST(BadInput, RawDataTooLong) {
  ModelBuilder b;
  b.floats("w", {1}, {1, 2});
  b.output("w");
  expectError(b, "'w' has 8 bytes of data, but its shape needs 4");
}

TEST(BadInput, TypedDataOfWrongLength) {
  ModelBuilder b;
  b.ints("k", {1, 2}).set_dims(0, 3);
  b.output("k");
  expectError(b, "'k' has 2 elements of INT64, but its shape needs 3");
}

TEST(BadInput, HalfOutsideItsRange) {
  ModelBuilder b;
  mpc_onnx::TensorProto &tensor = *b.graph().add_initializer();
  tensor.set_name("h");
  tensor.set_data_type(onnx::kFloat16);
  tensor.add_dims(1);
  tensor.add_int32_data(70000);
  b.output("h");
  expectError(b, "'h' has an element outside the range of FLOAT16");
}

TEST(BadInput, NegativeExtent) {
  ModelBuilder b;
  b.floats("w", {1}, {1}).set_dims(0, -1);
  b.output("w");
  expectError(b, "'w' has a shape that is negative");
}

TEST(BadInput, UnsupportedConstantType) {
  ModelBuilder b;
  b.floats("w", {1}, {1}).set_data_type(14 /* COMPLEX64 */);
  b.output("w");
  expectError(b, "'w' has elements of COMPLEX64");
}

TEST(BadInput, SparseInitializer) {
  ModelBuilder b;
  unaryModel(b, "Relu");
  b.graph().add_sparse_initializer();
  expectError(b, "sparse initializers");
}

// 2^40 elements in the shape, a few bytes in the file: nothing is allocated.
TEST(BadInput, HugeInitializer) {
  ModelBuilder b;
  b.floats("w", {int64_t(1) << 40}, {1});
  b.output("w");
  expectError(b, "needs 4398046511104");
}

TEST(BadInput, HugeConstantOfShape) {
  ModelBuilder b;
  b.ints("shape", {int64_t(1) << 40});
  b.output("y");
  b.node("ConstantOfShape", {"shape"}, {"y"});
  expectError(b, "too large");
}

TEST(BadInput, HugeExpand) {
  ModelBuilder b;
  b.ints("shape", {int64_t(1) << 20, int64_t(1) << 20});
  b.input("x", {1, 1});
  b.output("y");
  b.node("Expand", {"x", "shape"}, {"y"});
  expectError(b, "too large");
}

TEST(BadInput, HugeRange) {
  ModelBuilder b;
  b.ints("start", {0}).clear_dims();
  b.ints("limit", {int64_t(1) << 40}).clear_dims();
  b.ints("delta", {1}).clear_dims();
  b.output("y");
  b.node("Range", {"start", "limit", "delta"}, {"y"});
  expectError(b, "too large");
}

TEST(BadInput, HugeTile) {
  ModelBuilder b;
  b.input("x", {1000});
  b.ints("repeats", {int64_t(1) << 60});
  b.output("y");
  b.node("Tile", {"x", "repeats"}, {"y"});
  expectError(b, "repeats has the entry");
}

TEST(BadInput, HugePad) {
  ModelBuilder b;
  b.input("x", {4});
  b.ints("pads", {0, int64_t(1) << 40});
  b.output("y");
  b.node("Pad", {"x", "pads"}, {"y"});
  expectError(b, "too large");
}
