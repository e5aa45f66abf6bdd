//===- TensorOpsTests.cpp - data movement and indexing --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

class TensorOpsTest : public ReferenceTest {
protected:
  Tensor x = floats("tensor<2x3xf32>", {1, 2, 3, 4, 5, 6});
};

TEST_F(TensorOpsTest, ShapesAndPermutations) {
  expectFloats("mpc.reshape %0 : tensor<2x3xf32> to tensor<3x2xf32>", {x},
               "tensor<3x2xf32>", {1, 2, 3, 4, 5, 6});
  expectFloats("mpc.transpose %0 [1, 0] : tensor<2x3xf32> to tensor<3x2xf32>",
               {x}, "tensor<3x2xf32>", {1, 4, 2, 5, 3, 6});
  expectFloats("mpc.broadcast %0 : tensor<2x1xf32> to tensor<2x2x2xf32>",
               {floats("tensor<2x1xf32>", {1, 2})}, "tensor<2x2x2xf32>",
               {1, 1, 2, 2, 1, 1, 2, 2});
  expectFloats("mpc.reverse %0 axes([0, 1]) : tensor<2x3xf32>", {x},
               "tensor<2x3xf32>", {6, 5, 4, 3, 2, 1});
  expectFloats("mpc.slice %0 [0, 1] [2, 1] strides [1, 2] : tensor<2x3xf32> to "
               "tensor<2x1xf32>",
               {x}, "tensor<2x1xf32>", {2, 5});
  expectFloats("mpc.slice %0 [1, 0] [1, 2] strides [1, 2] : tensor<2x3xf32> to "
               "tensor<1x2xf32>",
               {x}, "tensor<1x2xf32>", {4, 6});
  expectFloats("mpc.concat %0, %1 axis(1) : (tensor<2x3xf32>, tensor<2x1xf32>) "
               "-> tensor<2x4xf32>",
               {x, floats("tensor<2x1xf32>", {8, 9})}, "tensor<2x4xf32>",
               {1, 2, 3, 8, 4, 5, 6, 9});
  expectInts(
      "mpc.transpose %0 [2, 0, 1] : tensor<2x1x2xi8> to tensor<2x2x1xi8>",
      {ints("tensor<2x1x2xi8>", {1, 2, 3, 4})}, "tensor<2x2x1xi8>",
      {1, 3, 2, 4});
}

TEST_F(TensorOpsTest, PadModes) {
  Tensor line = floats("tensor<3xf32>", {1, 2, 3}),
         zero = floats("tensor<f32>", {0});
  auto check = [&](std::string attributes, StringRef result,
                   ArrayRef<double> expected) {
    expectFloats("mpc.pad %0, %1 " + attributes +
                     " : (tensor<3xf32>, tensor<f32>) -> " + result.str(),
                 {line, zero}, result, expected);
  };
  check("low([2]) high([1])", "tensor<6xf32>", {0, 0, 1, 2, 3, 0});
  check("low([-1]) high([-1])", "tensor<1xf32>", {2});
  check("low([1]) high([0]) interior([1])", "tensor<6xf32>",
        {0, 1, 0, 2, 0, 3});
  check("low([2]) high([2]) mode(reflect)", "tensor<7xf32>",
        {3, 2, 1, 2, 3, 2, 1});
  check("low([2]) high([1]) mode(edge)", "tensor<6xf32>", {1, 1, 1, 2, 3, 3});
  check("low([2]) high([4]) mode(wrap)", "tensor<9xf32>",
        {2, 3, 1, 2, 3, 1, 2, 3, 1});
  expectInts("mpc.pad %0, %1 low([0, 1]) high([1, 0]) : (tensor<1x1xi64>, "
             "tensor<i64>) -> "
             "tensor<2x2xi64>",
             {ints("tensor<1x1xi64>", {5}), ints("tensor<i64>", {9})},
             "tensor<2x2xi64>", {9, 5, 9, 9});
}

TEST_F(TensorOpsTest, Gathers) {
  Tensor indices = ints("tensor<2xi64>", {-1, 7});
  expectFloats("mpc.gather %0, %1 axis(1) : (tensor<2x3xf32>, tensor<2xi64>) "
               "-> tensor<2x2xf32>",
               {x, indices}, "tensor<2x2xf32>", {3, 3, 6, 6});
  expectFloats("mpc.gather %0, %1 axis(0) : (tensor<2x3xf32>, tensor<i32>) -> "
               "tensor<3xf32>",
               {x, ints("tensor<i32>", {1})}, "tensor<3xf32>", {4, 5, 6});
  expectFloats("mpc.gather_elements %0, %1 axis(1) : (tensor<2x3xf32>, "
               "tensor<2x2xi64>) -> "
               "tensor<2x2xf32>",
               {x, ints("tensor<2x2xi64>", {2, 0, -3, 1})}, "tensor<2x2xf32>",
               {3, 1, 4, 5});
  expectFloats("mpc.gather_nd %0, %1 : (tensor<2x3xf32>, tensor<2x2xi64>) -> "
               "tensor<2xf32>",
               {x, ints("tensor<2x2xi64>", {0, 1, 1, -1})}, "tensor<2xf32>",
               {2, 6});
  expectFloats("mpc.gather_nd %0, %1 batch_dims(1) : (tensor<2x3xf32>, "
               "tensor<2x1xi64>) -> "
               "tensor<2xf32>",
               {x, ints("tensor<2x1xi64>", {2, 0})}, "tensor<2xf32>", {3, 4});
}

// The verifier rejects this op; the interpreter must not rely on that, since
// folding evaluates ops that were never verified.
TEST_F(TensorOpsTest, GatherFromNothingIsAnError) {
  module = parseSourceString<ModuleOp>(
      "func.func @f(%0: tensor<0x3xf32>, %1: tensor<1xi64>) -> tensor<1x3xf32> "
      "{\n"
      "  %r = mpc.gather %0, %1 axis(0) : (tensor<0x3xf32>, tensor<1xi64>) -> "
      "tensor<1x3xf32>\n"
      "  return %r : tensor<1x3xf32>\n}",
      ParserConfig(&context, /*verifyAfterParse=*/false));
  ASSERT_TRUE(module) << messages;
  EXPECT_TRUE(failed(interpret(
      module->lookupSymbol<func::FuncOp>("f"),
      {floats("tensor<0x3xf32>", {}), ints("tensor<1xi64>", {0})}, {})));
  EXPECT_NE(messages.find("takes elements of an empty tensor"),
            std::string::npos)
      << messages;
}

TEST_F(TensorOpsTest, Scatters) {
  Tensor indices = ints("tensor<1x3xi64>", {0, 9, -1});
  Tensor updates = floats("tensor<1x3xf32>", {10, 20, 30});
  const char *types = " : (tensor<2x3xf32>, tensor<1x3xi64>, tensor<1x3xf32>) "
                      "-> tensor<2x3xf32>";
  expectFloats(std::string("mpc.scatter_elements %0, %1, %2 axis(1)") + types,
               {x, indices, updates}, "tensor<2x3xf32>", {10, 2, 30, 4, 5, 6});
  expectFloats(
      std::string("mpc.scatter_elements %0, %1, %2 axis(1) reduction(add)") +
          types,
      {x, ints("tensor<1x3xi64>", {1, 1, 1}), updates}, "tensor<2x3xf32>",
      {1, 62, 3, 4, 5, 6});
  const char *ndTypes =
      " : (tensor<2x3xf32>, tensor<1x1xi64>, tensor<1x3xf32>) -> "
      "tensor<2x3xf32>";
  expectFloats(
      std::string("mpc.scatter_nd %0, %1, %2 reduction(max)") + ndTypes,
      {x, ints("tensor<1x1xi64>", {1}), floats("tensor<1x3xf32>", {0, 50, 0})},
      "tensor<2x3xf32>", {1, 2, 3, 4, 50, 6});
  expectFloats(
      std::string("mpc.scatter_nd %0, %1, %2 reduction(mul)") + ndTypes,
      {x, ints("tensor<1x1xi64>", {0}), floats("tensor<1x3xf32>", {2, 3, 4})},
      "tensor<2x3xf32>", {2, 6, 12, 4, 5, 6});
  expectFloats(
      std::string("mpc.scatter_nd %0, %1, %2") + ndTypes,
      {x, ints("tensor<1x1xi64>", {5}), floats("tensor<1x3xf32>", {0, 0, 0})},
      "tensor<2x3xf32>", {1, 2, 3, 4, 5, 6});
}

TEST_F(TensorOpsTest, PositionsAsValues) {
  expectInts("mpc.iota axis(1) : tensor<2x3xi32>", {}, "tensor<2x3xi32>",
             {0, 1, 2, 0, 1, 2});
  expectFloats("mpc.iota axis(0) : tensor<2x2xf32>", {}, "tensor<2x2xf32>",
               {0, 0, 1, 1});
  expectFloats(
      "mpc.one_hot %0, %1, %2 depth(3) axis(1) : (tensor<3xi64>, tensor<f32>, "
      "tensor<f32>) -> tensor<3x3xf32>",
      {ints("tensor<3xi64>", {1, -1, 8}), floats("tensor<f32>", {5}),
       floats("tensor<f32>", {-1})},
      "tensor<3x3xf32>", {-1, 5, -1, -1, -1, 5, -1, -1, -1});
  expectInts("mpc.one_hot %0, %1, %2 depth(2) axis(0) : (tensor<2xi64>, "
             "tensor<i8>, tensor<i8>) "
             "-> tensor<2x2xi8>",
             {ints("tensor<2xi64>", {1, 0}), ints("tensor<i8>", {1}),
              ints("tensor<i8>", {0})},
             "tensor<2x2xi8>", {0, 1, 1, 0});
}

} // namespace
