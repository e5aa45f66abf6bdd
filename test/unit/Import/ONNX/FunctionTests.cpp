//===- FunctionTests.cpp - local functions and subgraphs ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "ModelBuilder.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

/// Adds the function `name`(v) -> r in domain "local".
static mpc_onnx::FunctionProto &addFunction(ModelBuilder &b,
                                            const std::string &name) {
  mpc_onnx::FunctionProto &function = *b.model.add_functions();
  function.set_name(name);
  function.set_domain("local");
  function.add_input("v");
  function.add_output("r");
  return function;
}

/// A call of a local function.
static mpc_onnx::NodeProto &call(mpc_onnx::NodeProto &node) {
  node.set_domain("local");
  return node;
}

TEST(LocalFunction, IsInlinedWithUniqueNames) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("z");
  mpc_onnx::FunctionProto &function = addFunction(b, "Twice");
  ModelBuilder::fillNode(*function.add_node(), "Abs", {"v"}, {"t"});
  ModelBuilder::fillNode(*function.add_node(), "Add", {"t", "t"}, {"r"});
  call(b.node("Twice", {"x"}, {"y"})).set_name("first");
  call(b.node("Twice", {"y"}, {"z"})).set_name("second");
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.count<AbsOp>(), 2);
  EXPECT_EQ(import.count<AddOp>(), 2);
  auto name = mlir::dyn_cast<mlir::NameLoc>(import.first<AbsOp>().getLoc());
  ASSERT_TRUE(name);
  EXPECT_EQ(name.getName().getValue(), "first/Abs_node");
}

TEST(LocalFunction, GivenAndDefaultAttributes) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("z");
  mpc_onnx::FunctionProto &function = addFunction(b, "Leaky");
  mpc_onnx::AttributeProto &fallback = *function.add_attribute_proto();
  fallback.set_name("slope");
  fallback.set_type(1);
  fallback.set_f(0.25f);
  mpc_onnx::NodeProto &leaky =
      ModelBuilder::fillNode(*function.add_node(), "LeakyRelu", {"v"}, {"r"});
  ModelBuilder::attribute(leaky, "alpha", 1).set_ref_attr_name("slope");
  mpc_onnx::NodeProto &given = call(b.node("Leaky", {"x"}, {"y"}));
  ModelBuilder::attribute(given, "slope", 1).set_f(0.5f);
  call(b.node("Leaky", {"y"}, {"z"}));
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  std::vector<double> alphas;
  import.main().walk([&](LeakyReluOp op) {
    alphas.push_back(op.getAlpha().convertToDouble());
  });
  EXPECT_EQ(alphas, (std::vector<double>{0.5, 0.25}));
}

TEST(LocalFunction, UsesItsOwnOpset) {
  // Softmax ran along all axes from `axis` on until opset 12.
  ModelBuilder b(17);
  b.input("x", {1, 2});
  b.output("y");
  mpc_onnx::FunctionProto &function = addFunction(b, "Old");
  function.add_opset_import()->set_version(11);
  mpc_onnx::NodeProto &softmax =
      ModelBuilder::fillNode(*function.add_node(), "Softmax", {"v"}, {"r"});
  ModelBuilder::intAttr(softmax, "axis", 0);
  call(b.node("Old", {"x"}, {"y"}));
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  // Seen as a matrix of one row, in which the softmax runs along the columns.
  EXPECT_EQ(import.first<SoftmaxOp>().getAxis(), 1);
}

TEST(LocalFunction, OutputThatIsAnInput) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  mpc_onnx::FunctionProto &function = *b.model.add_functions();
  function.set_name("Same");
  function.set_domain("local");
  function.add_input("v");
  function.add_output("v");
  call(b.node("Same", {"x"}, {"y"}));
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.resultShape(), (std::vector<int64_t>{2}));
}

TEST(LocalFunction, RecursionIsRefused) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  mpc_onnx::FunctionProto &function = addFunction(b, "Loop");
  call(ModelBuilder::fillNode(*function.add_node(), "Loop", {"v"}, {"r"}));
  call(b.node("Loop", {"x"}, {"y"}));
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("calls itself"), std::string::npos);
}

// Each function calls the next one twice: 2^40 nodes if nobody counts.
TEST(LocalFunction, ExplosionIsRefused) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  for (int depth = 0; depth < 40; ++depth) {
    mpc_onnx::FunctionProto &function =
        addFunction(b, "f" + std::to_string(depth));
    std::string next = "f" + std::to_string(depth + 1);
    bool last = depth == 39;
    for (const char *names : {"vt", "tr"}) {
      mpc_onnx::NodeProto &node = ModelBuilder::fillNode(
          *function.add_node(), last ? "Abs" : next, {std::string(1, names[0])},
          {std::string(1, names[1])});
      if (!last)
        call(node);
    }
  }
  call(b.node("f0", {"x"}, {"y"}));
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("nodes after inlining"), std::string::npos)
      << import.firstError();
}

TEST(LocalFunction, DeepChainIsRefused) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  for (int depth = 0; depth < 1000; ++depth)
    call(ModelBuilder::fillNode(
        *addFunction(b, "f" + std::to_string(depth)).add_node(),
        "f" + std::to_string(depth + 1), {"v"}, {"r"}));
  call(b.node("f0", {"x"}, {"y"}));
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("nested more than"), std::string::npos);
}

TEST(LocalFunction, UnknownAttributeIsRefused) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  ModelBuilder::fillNode(*addFunction(b, "f").add_node(), "Abs", {"v"}, {"r"});
  ModelBuilder::intAttr(call(b.node("f", {"x"}, {"y"})), "slope", 1);
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("has no attribute 'slope'"),
            std::string::npos);
}

TEST(LocalFunction, TwoDefinitionsAreRefused) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("x");
  addFunction(b, "f");
  addFunction(b, "f");
  Import import;
  EXPECT_FALSE(import.run(b));
  EXPECT_NE(import.firstError().find("is defined twice"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// If and Loop
//===----------------------------------------------------------------------===//

/// A model that chooses between Abs and Neg of x.
static ModelBuilder branchModel(bool constant, bool value) {
  ModelBuilder b;
  b.input("x", {2});
  b.output("y");
  if (constant) {
    mpc_onnx::TensorProto &condition = *b.graph().add_initializer();
    condition.set_name("condition");
    condition.set_data_type(onnx::kBool);
    condition.add_int32_data(value);
  } else {
    b.input("condition", {}, onnx::kBool);
  }
  mpc_onnx::NodeProto &node = b.node("If", {"condition"}, {"y"});
  for (auto [name, op] :
       {std::pair("then_branch", "Abs"), std::pair("else_branch", "Neg")}) {
    mpc_onnx::GraphProto &body =
        *ModelBuilder::attribute(node, name, 5).mutable_g();
    ModelBuilder::fillNode(*body.add_node(), op, {"x"}, {"r"});
    body.add_output()->set_name("r");
  }
  return b;
}

TEST(If, KnownConditionChoosesABranch) {
  Import import;
  ASSERT_TRUE(import.run(branchModel(true, true))) << import.firstError();
  EXPECT_EQ(import.count<AbsOp>(), 1);
  EXPECT_EQ(import.count<NegOp>(), 0);
  ASSERT_TRUE(import.run(branchModel(true, false))) << import.firstError();
  EXPECT_EQ(import.count<AbsOp>(), 0);
  EXPECT_EQ(import.count<NegOp>(), 1);
}

TEST(If, UnknownConditionIsRefused) {
  Import import;
  EXPECT_FALSE(import.run(branchModel(false, false)));
  EXPECT_NE(import.firstError().find("If: condition"), std::string::npos);
}

/// v = v + v, `trips` times, with v as a scan output.
static ModelBuilder loopModel(int64_t trips) {
  ModelBuilder b;
  b.input("x", {2});
  b.ints("trips", {trips}).clear_dims();
  b.output("last");
  b.output("all");
  mpc_onnx::NodeProto &node =
      b.node("Loop", {"trips", "", "x"}, {"last", "all"});
  mpc_onnx::GraphProto &body =
      *ModelBuilder::attribute(node, "body", 5).mutable_g();
  for (const char *name : {"i", "condition", "v"})
    body.add_input()->set_name(name);
  ModelBuilder::fillNode(*body.add_node(), "Identity", {"condition"}, {"go"});
  ModelBuilder::fillNode(*body.add_node(), "Add", {"v", "v"}, {"w"});
  ModelBuilder::fillNode(*body.add_node(), "Identity", {"w"}, {"scan"});
  for (const char *name : {"go", "w", "scan"})
    body.add_output()->set_name(name);
  return b;
}

TEST(Loop, KnownLengthIsUnrolled) {
  Import import;
  ASSERT_TRUE(import.run(loopModel(3))) << import.firstError();
  EXPECT_EQ(import.count<AddOp>(), 3);
  EXPECT_EQ(import.resultShape(0), (std::vector<int64_t>{2}));
  EXPECT_EQ(import.resultShape(1), (std::vector<int64_t>{3, 2}));
}

TEST(Loop, HoldsEachWeightOnce) {
  ModelBuilder b;
  b.input("x", {2});
  b.ints("trips", {3}).clear_dims();
  b.output("last");
  mpc_onnx::GraphProto &body =
      *ModelBuilder::attribute(b.node("Loop", {"trips", "", "x"}, {"last"}),
                               "body", 5)
           .mutable_g();
  for (const char *name : {"i", "condition", "v"})
    body.add_input()->set_name(name);
  ModelBuilder::fillFloats(*body.add_initializer(), "bias", {2}, {1, 2});
  mpc_onnx::NodeProto &node =
      ModelBuilder::fillNode(*body.add_node(), "Constant", {}, {"scale"});
  ModelBuilder::fillFloats(
      *ModelBuilder::attribute(node, "value", 4).mutable_t(), "", {2}, {3, 4});
  ModelBuilder::fillNode(*body.add_node(), "Identity", {"condition"}, {"go"});
  ModelBuilder::fillNode(*body.add_node(), "Mul", {"v", "scale"}, {"t"});
  ModelBuilder::fillNode(*body.add_node(), "Add", {"t", "bias"}, {"w"});
  for (const char *name : {"go", "w"})
    body.add_output()->set_name(name);
  Import import;
  ASSERT_TRUE(import.run(b)) << import.firstError();
  EXPECT_EQ(import.count<MulOp>(), 3);
  EXPECT_EQ(import.count<ConstantOp>(), 2);
}

TEST(Loop, EndlessLoopIsRefused) {
  Import import;
  EXPECT_FALSE(import.run(loopModel(int64_t(1) << 40)));
  EXPECT_NE(import.firstError().find("more than 1024 iterations"),
            std::string::npos);
}
