//===- SensitivityTest.cpp - predicted against measured errors ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGraph.h"
#include "TuningTest.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Tuning/RankCorrelation.h"
#include "mpc/Tuning/Sensitivity.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::test;
using mpc::reference::Tensor;

namespace {

class SensitivityTest : public TuningTest {
protected:
  /// The error of the outputs where `changed` alone is rounded to `type`.
  double measured(func::FuncOp function, ArrayRef<Tensor> arguments,
                  ArrayRef<Tensor> wanted, Value changed, Type type) {
    auto round = [&](Tensor &tensor) {
      for (double &value : tensor.floats())
        value = reference::roundTo(value, type);
    };
    std::vector<Tensor> given(arguments.begin(), arguments.end());
    if (auto argument = dyn_cast<BlockArgument>(changed))
      round(given[argument.getArgNumber()]);
    reference::InterpretOptions options;
    options.observer = [&](Operation *op, MutableArrayRef<Tensor> results) {
      for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results))
        if (result == changed)
          round(tensor);
    };
    auto outputs = reference::interpret(function, given, options);
    EXPECT_TRUE(succeeded(outputs));
    ErrorMeter meter(Budget::Measure::Rms);
    meter.add(wanted, *outputs);
    return meter.value();
  }
};

/// Rounded weights: the predicted error equals the error of a matmul of them.
TEST_F(SensitivityTest, PredictsWhatRoundedWeightsDo) {
  std::string text = R"(
func.func @main(%x: tensor<32x64xf32>) -> tensor<32x48xf32> {
  %w = mpc.constant dense<"0x)";
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 64 * 48; ++i) {
    float value = normal(random);
    text += llvm::toHex(StringRef(reinterpret_cast<char *>(&value), 4));
  }
  text += R"("> : tensor<64x48xf32>
  %0 = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x48xf32>) -> tensor<32x48xf32> loc("a")
  return %0 : tensor<32x48xf32>
})";
  func::FuncOp function = parse(text);
  Operation *op = *function.getOps<MatmulOp>().begin();
  std::vector<Tensor> arguments = draw(function, 1);
  for (WeightType type :
       {WeightType::Float16, WeightType::Int16, WeightType::Int8,
        WeightType::Int4, WeightType::Float8}) {
    WeightFormat format;
    format.type = type;
    StoredWeights stored{format};
    Sensitivity sensitivity(function, Budget::Measure::Rms);
    ASSERT_TRUE(sensitivity.consider(op, stored));
    EXPECT_EQ(sensitivity.ofWeights(op, format, kFloat32Bits), 0);
    auto outputs = sensitivity.addSample(arguments, /*draws=*/8);
    ASSERT_TRUE(succeeded(outputs));
    // Saved samples include their sensitivities to weights.
    Sensitivity other(function, Budget::Measure::Rms);
    std::vector<double> saved = sensitivity.save();
    EXPECT_EQ(other.restore(saved), !format.isScaled());
    ASSERT_TRUE(other.consider(op, stored));
    EXPECT_TRUE(other.restore(saved));
    double squared = other.ofWeights(op, format, kFloat32Bits);
    EXPECT_EQ(squared, sensitivity.ofWeights(op, format, kFloat32Bits));

    std::vector<float> values = *finiteWeights(weightsOf(op));
    WeightColumns::of(op)->round(op->getContext(), values, stored);
    OwningOpRef<ModuleOp> copy(
        cast<ModuleOp>(function->getParentOp()->clone()));
    auto rounded = *copy->getOps<func::FuncOp>().begin();
    auto constant = *rounded.getOps<mpc::ConstantOp>().begin();
    constant->setAttr("value", DenseElementsAttr::get(
                                   cast<RankedTensorType>(constant.getType()),
                                   ArrayRef<float>(values)));
    auto found = reference::interpret(rounded, arguments);
    ASSERT_TRUE(succeeded(found));
    ErrorMeter meter(Budget::Measure::Rms);
    meter.add(*outputs, *found);
    ASSERT_GT(meter.value(), 0);
    EXPECT_LT(std::sqrt(squared) / meter.value(), 1.2) << int(type);
    EXPECT_GT(std::sqrt(squared) / meter.value(), 0.8) << int(type);
  }
}

/// Every single rounding of random graphs with one output, in both types.
TEST_F(SensitivityTest, PredictsWhatRoundingOneValueDoes) {
  std::vector<double> correlations, ratios;
  for (unsigned seed = 0; seed < 60; ++seed) {
    func::FuncOp function = parse(RandomGraph(seed, 16, 14).text());
    // One output, so that the worst is the only one.
    Operation *end = function.getBody().front().getTerminator();
    end->setOperands(end->getOperands().take_front(1));
    function.setType(FunctionType::get(&context, function.getArgumentTypes(),
                                       end->getOperandTypes()));
    std::vector<Tensor> arguments = draw(function, seed);
    Sensitivity sensitivity(function, Budget::Measure::Rms);
    FailureOr<SmallVector<Tensor>> outputs =
        sensitivity.addSample(arguments, /*draws=*/8);
    ASSERT_TRUE(succeeded(outputs));
    if (!llvm::all_of(outputs->front().floats(),
                      [](double value) { return std::isfinite(value); }))
      continue;
    std::vector<double> predicted, found;
    auto compare = [&](Value value) {
      for (FloatType type : {FloatType(Float16Type::get(&context)),
                             FloatType(BFloat16Type::get(&context))}) {
        double error = measured(function, arguments, *outputs, value, type);
        // Unread values have no error, large errors are not first order.
        if (error == 0 || error > 0.05)
          continue;
        double squared = sensitivity.ofValue(value, type);
        if (std::isinf(squared))
          continue;
        predicted.push_back(std::sqrt(squared));
        found.push_back(error);
        ratios.push_back(predicted.back() / error);
      }
    };
    llvm::for_each(function.getArguments(), compare);
    for (Operation &op : function.getBody().front())
      if (!isa<mpc::ConstantOp>(op))
        llvm::for_each(op.getResults(), compare);
    if (predicted.size() >= 8)
      correlations.push_back(rankCorrelation(predicted, found));
  }
  ASSERT_GE(correlations.size(), 20u);
  EXPECT_GE(medianOf(correlations), 0.95);
  double mean = std::accumulate(correlations.begin(), correlations.end(), 0.0) /
                double(correlations.size());
  EXPECT_GE(mean, 0.9);
  EXPECT_LT(medianOf(ratios), 2);
  EXPECT_GT(medianOf(ratios), 0.5);
  RecordProperty("correlation", std::to_string(mean));
  RecordProperty("median_ratio", std::to_string(medianOf(ratios)));
}

constexpr const char *kTwoReaders = R"(
func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %w = mpc.constant dense<0.3> : tensor<16x16xf32>
  %0 = mpc.tanh %x : tensor<16x16xf32>
  %1 = mpc.matmul %0, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = mpc.add %1, %0 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2 : tensor<16x16xf32>
})";

/// Each use of a value is separate, and a constant of a matmul has one use.
TEST_F(SensitivityTest, UsesAreApart) {
  func::FuncOp function = parse(kTwoReaders);
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  auto type = BFloat16Type::get(&context);
  Operation *matmul = nullptr, *add = nullptr;
  for (Operation &op : function.getBody().front()) {
    if (isa<MatmulOp>(op))
      matmul = &op;
    if (isa<AddOp>(op))
      add = &op;
  }
  double first = sensitivity.ofUse(matmul->getOpOperand(0), type),
         second = sensitivity.ofUse(add->getOpOperand(1), type);
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_NE(first, second);
  EXPECT_GT(sensitivity.ofUse(matmul->getOpOperand(1), type), 0);
}

TEST_F(SensitivityTest, WiderTypesErrLess) {
  func::FuncOp function = parse(kTwoReaders);
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  Value value = function.getBody().front().getTerminator()->getOperand(0);
  double bf16 = sensitivity.ofValue(value, BFloat16Type::get(&context)),
         f16 = sensitivity.ofValue(value, Float16Type::get(&context)),
         tf32 = sensitivity.ofValue(value, FloatTF32Type::get(&context)),
         f32 = sensitivity.ofValue(value, Float32Type::get(&context));
  // Three bits are a factor of 64.
  EXPECT_NEAR(bf16 / f16, 64, 20);
  EXPECT_NEAR(f16 / tf32, 1, 0.5);
  EXPECT_LT(f32, 1e-6 * tf32);
}

TEST_F(SensitivityTest, WhatOverflowsErrsWithoutEnd) {
  func::FuncOp function = parse(R"(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = mpc.constant dense<1.0e6> : tensor<f32>
  %0 = mpc.mul %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = mpc.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
})");
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  Value product = function.getBody()
                      .front()
                      .getTerminator()
                      ->getOperand(0)
                      .getDefiningOp()
                      ->getOperand(0);
  EXPECT_EQ(sensitivity.ofValue(product, Float16Type::get(&context)), INFINITY);
  EXPECT_LT(sensitivity.ofValue(product, BFloat16Type::get(&context)),
            INFINITY);
}

TEST_F(SensitivityTest, InputsThatAreNoNumbersDoNoHarm) {
  func::FuncOp function = parse(kTwoReaders);
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  std::vector<Tensor> arguments = draw(function, 1);
  arguments.front().floats()[0] = std::nan("");
  arguments.front().floats()[1] = INFINITY;
  ASSERT_TRUE(succeeded(sensitivity.addSample(arguments)));
  Value value = function.getBody().front().getTerminator()->getOperand(0);
  EXPECT_TRUE(
      std::isfinite(sensitivity.ofValue(value, BFloat16Type::get(&context))));
}

TEST_F(SensitivityTest, WhatIsSavedIsRestored) {
  func::FuncOp function = parse(RandomGraph(3, 30, 9).text());
  Sensitivity first(function, Budget::Measure::Rms),
      second(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(first.addSample(draw(function, 1))));
  std::vector<double> numbers = first.save();
  ASSERT_TRUE(second.restore(numbers));
  EXPECT_EQ(second.getSamples(), 1);
  FloatType half = Float16Type::get(&context);
  for (Operation &op : function.getBody().front())
    for (Value result : op.getResults())
      EXPECT_EQ(first.ofValue(result, half), second.ofValue(result, half));
  numbers.pop_back();
  EXPECT_FALSE(second.restore(numbers));
}

} // namespace
