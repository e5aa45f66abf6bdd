//===- AdjointsTest.cpp - cotangents against finite differences -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuningTest.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Tuning/ReverseMode.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace {

class AdjointsTest : public mpc::test::TuningTest {
protected:
  /// The weighted sum of the first output, each op's first element changed by
  /// `step` where `changed` is its result.
  double run(func::FuncOp function, ArrayRef<Tensor> arguments, Value changed,
             double step) {
    std::vector<Tensor> given(arguments.begin(), arguments.end());
    if (auto argument = dyn_cast<BlockArgument>(changed))
      given[argument.getArgNumber()].floats()[0] += step;
    reference::InterpretOptions options;
    options.observer = [&](Operation *op, MutableArrayRef<Tensor> results) {
      for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
        if (result == changed)
          tensor.floats()[0] += step;
    };
    auto outputs = reference::interpret(function, given, options);
    EXPECT_TRUE(succeeded(outputs));
    double sum = 0;
    for (auto [i, value] : llvm::enumerate(outputs->front().floats()))
      sum += weight(i) * value;
    return sum;
  }
  static double weight(size_t i) { return 1 + 0.25 * double(i % 5); }

  /// Compares the first element's cotangent of every float value.
  void check(const std::string &text) {
    func::FuncOp function = parse(text);
    std::vector<Tensor> arguments = draw(function, 3);
    FailureOr<ForwardValues> forward = ForwardValues::run(function, arguments);
    ASSERT_TRUE(succeeded(forward));
    Value output = function.getBody().front().getTerminator()->getOperand(0);
    std::vector<std::optional<Tensor>> seeds(function.getNumResults());
    seeds[0].emplace(cast<RankedTensorType>(output.getType()));
    for (auto [i, value] : llvm::enumerate(seeds[0]->floats()))
      value = weight(i);
    ReverseModePass walk(function);
    llvm::DenseMap<Value, double> found, summed;
    // Twice, because derivatives are cached.
    for (int i = 0; i < 2; ++i) {
      found.clear();
      summed.clear();
      ASSERT_TRUE(succeeded(walk.run(
          *forward, seeds,
          [&](OpOperand &use, const Tensor &cotangent) {
            summed[use.get()] += cotangent.floats()[0];
          },
          [&](Value value, const Tensor &cotangent) {
            found[value] = cotangent.floats()[0];
          })));
    }
    auto compare = [&](Value value) {
      if (!isa<FloatType>(getElementTypeOrSelf(value)))
        return;
      constexpr double kStep = 1e-5;
      double slope = (run(function, arguments, value, kStep) -
                      run(function, arguments, value, -kStep)) /
                     (2 * kStep);
      EXPECT_NEAR(found.lookup(value), slope, 1e-5 * (1 + std::fabs(slope)));
      EXPECT_NEAR(summed.lookup(value), found.lookup(value), 1e-12);
    };
    llvm::for_each(function.getArguments(), compare);
    for (Operation &op : function.getBody().front())
      if (!isa<mpc::ConstantOp>(op))
        llvm::for_each(op.getResults(), compare);
  }
};

TEST_F(AdjointsTest, EveryValueOfALayerIsMet) {
  check(
      R"(func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %b = mpc.constant dense<0.5> : tensor<8xf32>
    %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = mpc.add %0, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = mpc.tanh %1 : tensor<4x8xf32>
    %3 = mpc.add %2, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = mpc.softmax %3 axis(1) : tensor<4x8xf32>
    return %4 : tensor<4x8xf32>
  })");
}

TEST_F(AdjointsTest, OneValueMayBeReadTwiceByOneOp) {
  check(R"(func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = mpc.mul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = mpc.matmul %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  })");
}

/// An integer and a constant in between, and an output that nothing seeds.
TEST_F(AdjointsTest, OtherValuesAreNoHindrance) {
  check(
      R"(func.func @main(%x: tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xi64>) {
    %i = mpc.constant dense<[2, 0]> : tensor<2xi64>
    %0 = mpc.exp %x : tensor<4x8xf32>
    %1 = mpc.gather %0, %i axis(0) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
    %2 = mpc.argmax %0 axis(1) : tensor<4x8xf32> -> tensor<4xi64>
    %3 = mpc.neg %0 : tensor<4x8xf32>
    return %1, %3, %2 : tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xi64>
  })");
}

/// A value that is rounded to integers before its use has no cotangent.
TEST_F(AdjointsTest, AnOpWithoutADerivativePassesNothing) {
  func::FuncOp function =
      parse(R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = mpc.floor %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  })");
  std::vector<Tensor> arguments = draw(function, 1);
  FailureOr<ForwardValues> forward = ForwardValues::run(function, arguments);
  ASSERT_TRUE(succeeded(forward));
  std::vector<std::optional<Tensor>> seeds = {arguments.front()};
  ReverseModePass walk(function);
  bool reached = false;
  EXPECT_TRUE(succeeded(walk.run(
      *forward, seeds, [](OpOperand &, const Tensor &) {},
      [&](Value value, const Tensor &cotangent) {
        if (isa<BlockArgument>(value))
          for (double slope : cotangent.floats())
            reached |= slope != 0;
      })));
  EXPECT_FALSE(reached);
}

} // namespace
