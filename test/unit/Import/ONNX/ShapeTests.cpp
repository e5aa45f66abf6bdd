//===- ShapeTests.cpp - symbolic dimensions and shape arithmetic -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

/// x [n, 3] -> Relu -> y.
static ModelBuilder symbolicModel() {
  ModelBuilder b;
  b.input("x", {-1, 3});
  b.output("y", {-1, 3});
  b.node("Relu", {"x"}, {"y"});
  return b;
}

TEST(SymbolicDimension, BoundByName) {
  Import import;
  import.options.dims["n"] = 5;
  ASSERT_TRUE(import.run(symbolicModel())) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{5, 3}));
}

TEST(SymbolicDimension, BoundByShape) {
  Import import;
  import.options.inputShapes["x"] = {4, 3};
  ASSERT_TRUE(import.run(symbolicModel())) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{4, 3}));
}

TEST(SymbolicDimension, BoundByBatch) {
  Import import;
  import.options.batch = 7;
  ASSERT_TRUE(import.run(symbolicModel())) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{7, 3}));
}

TEST(SymbolicDimension, UnknownNameIsRefused) {
  Import import;
  import.options.dims["m"] = 5;
  EXPECT_FALSE(import.run(symbolicModel()));
  EXPECT_NE(import.firstError().find("named 'm'"), std::string::npos);
}

TEST(SymbolicDimension, EqualNamesAreEqualExtents) {
  ModelBuilder b = symbolicModel();
  b.input("z", {-1});
  Import import;
  import.options.inputShapes["x"] = {4, 3};
  import.options.inputShapes["z"] = {5};
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("the extent 5, but it is 4"),
            std::string::npos)
      << import.firstError();
}

TEST(InputShape, OfAnotherRankIsRefused) {
  Import import;
  import.options.inputShapes["x"] = {4};
  EXPECT_FALSE(import.run(symbolicModel()));
  EXPECT_NE(import.firstError().find("a shape of 1 is given"),
            std::string::npos);
}

TEST(InputShape, OfAnotherExtentIsRefused) {
  Import import;
  import.options.inputShapes["x"] = {4, 9};
  EXPECT_FALSE(import.run(symbolicModel()));
  EXPECT_NE(import.firstError().find("extent 3 in dimension 1, but 9"),
            std::string::npos);
}

// A data file may hold labels as well, and name its arrays by position.
TEST(InputShape, ByPositionAndBesideOthers) {
  Import import;
  import.options.inputShapes["labels"] = {4};
  import.options.dataNames.insert("labels");
  import.options.inputShapes["arg0"] = {6, 3};
  ASSERT_TRUE(import.run(symbolicModel())) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{6, 3}));
}

TEST(InputShape, OfAnUnknownInputIsRefused) {
  Import import;
  import.options.inputShapes["image"] = {6, 3};
  EXPECT_FALSE(import.run(symbolicModel()));
  EXPECT_NE(import.firstError().find(
                "the model has no input named 'image'; its inputs are 'x'"),
            std::string::npos)
      << import.firstError();
}

// The cause of the unbound dimension is the array's name.
TEST(InputShape, AMisnamedArrayExplainsAMissingShape) {
  Import import;
  import.options.inputShapes["image"] = {6, 3};
  import.options.dataNames.insert("image");
  EXPECT_FALSE(import.run(symbolicModel()));
  EXPECT_NE(import.firstError().find("the model has no input named 'image'"),
            std::string::npos)
      << import.firstError();
}

TEST(InputShape, MessagesNameTheMeansOfTheCaller) {
  for (auto [caller, dim] :
       {std::pair(Caller::CommandLine, "as in --dim n=1"),
        std::pair(Caller::Cpp, "as in CompileOptions::dims[\"n\"] = 1"),
        std::pair(Caller::Python, "as in dims={'n': 1}")}) {
    Import import;
    import.options.caller = caller;
    EXPECT_FALSE(import.run(symbolicModel()));
    EXPECT_NE(import.firstError().find(dim), std::string::npos)
        << import.firstError();
  }
}

//===----------------------------------------------------------------------===//
// Another batch
//===----------------------------------------------------------------------===//

/// x [4, 2, 3] reshaped to a constant shape and back.
static ModelBuilder reshapeModel(const std::vector<int64_t> &shape) {
  ModelBuilder b;
  b.input("x", {4, 2, 3});
  b.ints("shape", shape);
  b.output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  return b;
}

TEST(Batch, ReplacesAFixedExtent) {
  Import import;
  import.options.batch = 9;
  ASSERT_TRUE(import.run(reshapeModel({4, 6}))) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{9, 6}));
}

TEST(Batch, FollowsIntoMergedDimensions) {
  Import import;
  import.options.batch = 9;
  ASSERT_TRUE(import.run(reshapeModel({8, 3}))) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{18, 3}));
}

TEST(Batch, FollowsWhereAnotherExtentIsInferred) {
  Import import;
  import.options.batch = 9;
  ASSERT_TRUE(import.run(reshapeModel({4, -1}))) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{9, 6}));
}

// The new batch is a multiple of the old one: both readings fit, and the
// model's own extents stay.
TEST(Batch, FollowsWhereTheOldOneFitsAsWell) {
  Import import;
  import.options.batch = 8;
  ASSERT_TRUE(import.run(reshapeModel({4, 2, -1}))) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{8, 2, 3}));
}

// Sequences before examples: the batch is the second dimension.
TEST(Batch, FollowsAfterAnotherDimension) {
  ModelBuilder b;
  b.input("x", {4, 2, 3});
  b.ints("shape", {6, 4, 1});
  b.output("y");
  ModelBuilder::intsAttr(b.node("Transpose", {"x"}, {"t"}), "perm", {1, 2, 0});
  b.node("Reshape", {"t", "shape"}, {"y"});
  Import import;
  import.options.batch = 9;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{6, 9, 1}));
}

// A class token that the exporter has repeated for each example.
TEST(Batch, RepeatedRowsFollow) {
  ModelBuilder b;
  b.input("x", {2, 3, 2});
  b.floats("token", {2, 1, 2}, {5, 6, 5, 6});
  b.output("y");
  ModelBuilder::intAttr(b.node("Concat", {"token", "x"}, {"y"}), "axis", 1);
  Import import;
  import.options.batch = 4;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{4, 4, 2}));
}

TEST(Batch, DifferentRowsAreNoBatch) {
  ModelBuilder b;
  b.input("x", {2, 3, 2});
  b.floats("token", {2, 1, 2}, {5, 6, 5, 7});
  b.output("y");
  ModelBuilder::intAttr(b.node("Concat", {"token", "x"}, {"y"}), "axis", 1);
  Import import;
  import.options.batch = 4;
  EXPECT_FALSE(import.run(b));
}

TEST(Batch, WithTwoLeadingExtentsIsRefused) {
  ModelBuilder b;
  b.input("x", {4, 2});
  b.input("h", {1, 2});
  b.output("y");
  b.node("Add", {"x", "h"}, {"y"});
  Import import;
  import.options.batch = 9;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("'x' and 'h' are 4 and 1"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Shape arithmetic
//===----------------------------------------------------------------------===//

// Shape -> Gather -> Concat -> Reshape, as exporters write a flatten.
TEST(ShapeArithmetic, IsEvaluatedAndLeavesNothingBehind) {
  ModelBuilder b;
  b.input("x", {-1, 2, 3});
  b.output("y");
  b.node("Shape", {"x"}, {"shape"});
  b.ints("zero", {0});
  b.node("Gather", {"shape", "zero"}, {"batch"});
  b.ints("minus", {-1});
  ModelBuilder::intAttr(b.node("Concat", {"batch", "minus"}, {"target"}),
                        "axis", 0);
  b.node("Reshape", {"x", "target"}, {"y"});
  Import import;
  import.options.dims["n"] = 5;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(import.count<ReshapeOp>(), 1);
  EXPECT_EQ(import.count<ConstantOp>(), 0);
  EXPECT_EQ(import.count<GatherOp>(), 0);
}

// Float arithmetic stays in the module, and is still known where a shape needs
// it.
TEST(ShapeArithmetic, FloatChainsAreKnownButNotFolded) {
  ModelBuilder b;
  b.input("x", {1, 1, 2, 2});
  b.floats("half", {4}, {0.5f, 0.5f, 1, 1});
  b.floats("two", {4}, {2, 2, 2, 2});
  b.output("y");
  b.output("scales");
  b.node("Mul", {"half", "two"}, {"scales"});
  b.node("Resize", {"x", "", "scales"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{1, 1, 4, 4}));
  EXPECT_EQ(import.count<MulOp>(), 1);
}

TEST(ShapeArithmetic, NeededInputsAreNamed) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.input("shape", {1}, onnx::kInt64);
  b.output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  llvm::SmallVector<std::string> needed;
  Import import;
  import.options.neededInputs = &needed;
  EXPECT_FALSE(import.run(b));
  ASSERT_EQ(needed.size(), 1u);
  EXPECT_EQ(needed[0], "shape");

  auto type = mlir::RankedTensorType::get(
      {1}, mlir::IntegerType::get(&import.context, 64));
  import.options.inputValues["shape"] =
      mlir::DenseElementsAttr::get(type, int64_t(6));
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{6}));
  EXPECT_EQ(import.main().getNumArguments(), 1u);
}

TEST(ShapeArithmetic, IsBounded) {
  ModelBuilder b;
  b.ints("shape", {1 << 20});
  b.output("y");
  mpc_onnx::NodeProto &node = b.node("ConstantOfShape", {"shape"}, {"ones"});
  mpc_onnx::TensorProto &one =
      *ModelBuilder::attribute(node, "value", 4).mutable_t();
  one.set_data_type(onnx::kInt64);
  one.add_dims(1);
  one.add_int64_data(1);
  b.ints("axis", {0}).clear_dims();
  b.node("CumSum", {"ones", "axis"}, {"y"});
  Import import;
  import.options.maxFoldBytes = 1024;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.count<CumsumOp>(), 1);
}

//===----------------------------------------------------------------------===//
// What the module says
//===----------------------------------------------------------------------===//

TEST(Module, NamesAndRoles) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y", {2});
  b.node("Relu", {"x"}, {"y"}).set_name("/stem/stem.0/Relu");
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  mlir::func::FuncOp main = import.main();
  EXPECT_EQ(main.getArgAttrOfType<mlir::StringAttr>(0, MpcDialect::kNameAttr)
                .getValue(),
            "x");
  EXPECT_EQ(main.getArgAttrOfType<RoleAttr>(0, MpcDialect::kRoleAttr).getKind(),
            RoleKind::input);
  EXPECT_EQ(main.getResultAttrOfType<mlir::StringAttr>(0, MpcDialect::kNameAttr)
                .getValue(),
            "y");
  EXPECT_EQ(
      main.getResultAttrOfType<RoleAttr>(0, MpcDialect::kRoleAttr).getKind(),
      RoleKind::output);
  auto relu = import.first<ReluOp>();
  EXPECT_EQ(
      relu->getAttrOfType<mlir::StringAttr>(MpcDialect::kLayerAttr).getValue(),
      "stem/0");
  auto name = mlir::dyn_cast<mlir::NameLoc>(relu.getLoc());
  ASSERT_TRUE(name);
  EXPECT_EQ(name.getName().getValue(), "/stem/stem.0/Relu");
  auto place = mlir::dyn_cast<mlir::FileLineColLoc>(name.getChildLoc());
  ASSERT_TRUE(place);
  EXPECT_EQ(place.getFilename().getValue(), "test.onnx");
  EXPECT_EQ(place.getLine(), 0u);
}

// Files of IR version 3 list every initializer as an input as well.
TEST(Module, InputWithADefaultIsAConstant) {
  ModelBuilder b;
  b.input("x", {2});
  b.input("w", {2});
  b.floats("w", {2}, {1, 2});
  b.output("y");
  b.node("Add", {"x", "w"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.main().getNumArguments(), 1u);
  EXPECT_EQ(import.count<ConstantOp>(), 1);
}

TEST(Module, UnusedConstantsAreNotLoaded) {
  ModelBuilder b;
  b.input("x", {2});
  b.floats("unused", {2}, {1, 2});
  b.output("y");
  b.node("Relu", {"x"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.count<ConstantOp>(), 0);
}

// A 16-bit matmul accumulates in f32 and is downcast once, after the bias.
TEST(Module, NarrowContractionsKeepTheirAccumulators) {
  ModelBuilder b;
  b.input("x", {2, 3}, onnx::kFloat16);
  b.input("w", {3, 4}, onnx::kFloat16);
  b.input("c", {4}, onnx::kFloat16);
  b.output("y");
  b.node("Gemm", {"x", "w", "c"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  auto product = import.first<MatmulOp>();
  EXPECT_TRUE(product.getResult().getType().getElementType().isF32());
  auto result =
      mlir::cast<mlir::RankedTensorType>(import.main().getResultTypes()[0]);
  EXPECT_TRUE(result.getElementType().isF16());
}

TEST(Module, OldOpsetsWarn) {
  ModelBuilder b(11);
  b.input("x", {2});
  b.output("y");
  b.node("Relu", {"x"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  ASSERT_EQ(import.warnings.size(), 1u);
  EXPECT_NE(import.warnings[0].find("opset 11"), std::string::npos);
}

// Only the required value is requested; data that depend on the input see it
// as well.
TEST(ShapeArithmetic, OfferedValuesAreTakenWhereNeeded) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.input("shape", {1}, onnx::kInt64);
  b.input("other", {1}, onnx::kInt64);
  b.output("y");
  b.output("sum");
  b.node("Add", {"shape", "other"}, {"sum"});
  b.node("Reshape", {"x", "shape"}, {"y"});
  std::vector<std::string> asked;
  llvm::SmallVector<std::string> fixed;
  Import import;
  auto type = mlir::RankedTensorType::get(
      {1}, mlir::IntegerType::get(&import.context, 64));
  import.options.fixedInputs = &fixed;
  import.options.offeredValue =
      [&](llvm::StringRef name) -> mlir::ElementsAttr {
    asked.push_back(name.str());
    return mlir::DenseElementsAttr::get(type, int64_t(6));
  };
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(asked, std::vector<std::string>{"shape"});
  EXPECT_EQ(fixed.size(), 1u);
  EXPECT_EQ(import.main().getNumArguments(), 2u);
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{6}));
}

//===----------------------------------------------------------------------===//
// Shapes that files declare wrongly
//===----------------------------------------------------------------------===//

// Optimizers leave stale shapes: one diagnostic line reports all of them.
TEST(DeclaredShape, WrongOnesAreIgnored) {
  ModelBuilder b;
  b.input("x", {2, 3});
  b.fillType(*b.graph().add_value_info(), "h", {5});
  b.output("y", {2, 4});
  b.node("Relu", {"x"}, {"h"});
  b.node("Neg", {"h"}, {"y"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(import.warnings.size(), 1u);
  EXPECT_EQ(import.warnings[0],
            "value 'h' is declared as [5], but is 'tensor<2x3xf32>'; the "
            "declared shape is ignored, as is 1 more (node 'Relu_node')");
}

TEST(DeclaredShape, RightOnesAreNotMentioned) {
  Import import;
  import.options.dims["n"] = 5;
  ASSERT_TRUE(import.run(symbolicModel())) << import.firstError();
  EXPECT_TRUE(import.warnings.empty());
}

// Some exporters write -1 or the symbol ?; two such extents need not be equal.
TEST(DeclaredShape, MinusOneAndQuestionMarkAreUnknown) {
  ModelBuilder b;
  b.input("x", {0, 0, 0, 0});
  mpc_onnx::TensorShapeProto &shape = *b.graph()
                                           .mutable_input(0)
                                           ->mutable_type()
                                           ->mutable_tensor_type()
                                           ->mutable_shape();
  shape.mutable_dim(0)->set_dim_value(-1);
  shape.mutable_dim(1)->set_dim_value(-1);
  shape.mutable_dim(2)->set_dim_param("?");
  shape.mutable_dim(3)->set_dim_param("?");
  b.output("y");
  b.node("Relu", {"x"}, {"y"});
  Import import;
  import.options.inputShapes["x"] = {2, 3, 4, 5};
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{2, 3, 4, 5}));
  shape.mutable_dim(0)->set_dim_value(-2);
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("a dimension of extent -2"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

// ONNX calls an index out of range an error, which runs have to notice.
TEST(Indices, GathersAndScattersOfUnknownOnesAreMarked) {
  ModelBuilder b;
  b.input("x", {4, 3});
  b.input("index", {2, 3}, onnx::kInt64);
  b.ints("known", {1});
  b.output("a");
  b.output("b");
  b.output("c");
  b.node("GatherElements", {"x", "index"}, {"a"});
  b.node("ScatterElements", {"x", "index", "a"}, {"b"});
  b.node("Gather", {"x", "known"}, {"c"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  int marked = 0;
  import.module->walk([&](mlir::Operation *op) {
    marked += op->hasAttr(kCheckedIndicesAttr);
    EXPECT_TRUE(!llvm::isa<GatherOp>(op) || !op->hasAttr(kCheckedIndicesAttr));
  });
  EXPECT_EQ(marked, 2);
}

// Lengths and write positions do not count from the end.
TEST(Indices, UnknownLengthsAreMarked) {
  ModelBuilder b(24);
  b.input("x", {2, 4, 3});
  b.input("lengths", {2}, onnx::kInt64);
  b.input("update", {2, 1, 3});
  b.output("a");
  b.output("b");
  mpc_onnx::NodeProto &reversed =
      b.node("ReverseSequence", {"x", "lengths"}, {"a"});
  ModelBuilder::intAttr(reversed, "batch_axis", 0);
  ModelBuilder::intAttr(reversed, "time_axis", 1);
  b.node("TensorScatter", {"x", "update", "lengths"}, {"b"});
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  int marked = 0;
  import.module->walk([&](mlir::Operation *op) {
    marked += checksLengths(op);
    EXPECT_EQ(checksLengths(op), op->hasAttr(kCheckedIndicesAttr));
  });
  EXPECT_EQ(marked, 2);
}
