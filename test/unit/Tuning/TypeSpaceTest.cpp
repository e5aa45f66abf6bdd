//===- TypeSpaceTest.cpp - search spaces of real graphs -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGraph.h"
#include "TuningTest.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"
#include "mpc/Tuning/CorrespondingErrors.h"
#include "mpc/Tuning/PolicySearchSpace.h"
#include "mpc/Tuning/RankCorrelation.h"
#include "mpc/Tuning/Sensitivity.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::test;
using mpc::reference::Tensor;

namespace {

class TypeSpaceTest : public TuningTest {
protected:
  TypeSpaceTest() : target(*TargetInfo::parse("cpu:avx2")) {}

  PolicySearchSpace space(func::FuncOp function, ArrayRef<PolicyType> types,
                          TuningObjective objective = TuningObjective::Bytes,
                          ArrayRef<WeightFormat> weights = {}) {
    FailureOr<PolicySearchSpace> made = PolicySearchSpace::create(
        function, target, PolicySearchSpace::basePolicy(types), types, weights,
        objective);
    EXPECT_TRUE(succeeded(made));
    return *made;
  }

  /// All choices of a space.
  template <typename Visit>
  void forAll(const BudgetSearchProblem &space, const Choice &at,
              const Visit &visit) {
    if (at.size() == space.options.size())
      return visit(space.plan(at, 0));
    for (int option = 0; option < space.options[at.size()]; ++option) {
      Choice next = at;
      next.push_back(option);
      forAll(space, next, visit);
    }
  }

  /// Carries a policy out, as a file that a pass reads.
  LogicalResult assignPolicy(ModuleOp module, const PolicySearchSpace &types,
                             const Choice &choice) {
    std::string products, values;
    for (auto [variable, option] :
         llvm::zip_equal(types.getVariables(), choice))
      for (const std::string &name : variable.names) {
        std::string &list = variable.isProduct ? products : values;
        list +=
            (list.empty() ? "\"" : ", \"") + name + "\": \"" +
            (variable.isProduct ? stringify(variable.options[option].type).str()
                                : std::string(option ? "narrow" : "float32")) +
            "\"";
      }
    SmallString<128> path;
    int descriptor = -1;
    EXPECT_FALSE(
        llvm::sys::fs::createTemporaryFile("tuned", "json", descriptor, path));
    llvm::FileRemover remover(path);
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true)
        << "{\"name\": \"t\", \"extends\": \"mixed_float16\", \"compute\": "
           "\"float32\", \"store\": \""
        << stringify(types.getStore()) << "\", \"products\": {" << products
        << "}, \"values\": {" << values << "}}";
    AssignPrecisionPassOptions options;
    options.policy = path.str().str();
    options.target = "cpu:avx2";
    PassManager manager(&context);
    manager.addPass(createAssignPrecisionPass(options));
    return manager.run(module);
  }

  CastFusionTarget target;
};

/// Normal numbers as the bytes of a resource.
std::string resourceOf(int64_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    float value = normal(random);
    text += llvm::toHex(StringRef(reinterpret_cast<char *>(&value), 4));
  }
  return text;
}

constexpr const char *kLayers = R"(
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("a")
  %1 = mpc.tanh %0 : tensor<64x64xf32> loc("b")
  %2 = mpc.matmul %1, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("c")
  %3 = mpc.add %2, %1 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("d")
  %4 = mpc.matmul %3, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(fused["e", "c"])
  return %4 : tensor<64x64xf32>
})";

TEST_F(TypeSpaceTest, OpsThatShareANameAreOneVariable) {
  func::FuncOp function = parse(kLayers);
  PolicySearchSpace types = space(function, {PolicyType::Float16});
  std::vector<std::vector<std::string>> products;
  for (const PolicySearchSpace::Variable &variable : types.getVariables())
    if (variable.isProduct)
      products.push_back(variable.names);
  EXPECT_EQ(products,
            (std::vector<std::vector<std::string>>{{"a"}, {"c", "e"}}));
}

TEST_F(TypeSpaceTest, AWideChoiceErrsNothing) {
  func::FuncOp function = parse(kLayers);
  PolicySearchSpace types =
      space(function, {PolicyType::Float16, PolicyType::BFloat16});
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  BudgetSearchProblem search = types.searchSpace(sensitivity);
  PricedConfiguration wide = search.plan(Choice(search.options.size(), 0), 0);
  EXPECT_EQ(wide.error, 0);
  Choice narrow;
  for (int options : search.options)
    narrow.push_back(options - 1);
  PricedConfiguration all = search.plan(narrow, 0);
  EXPECT_GT(all.error, 0);
  EXPECT_LT(all.cost, wide.cost);
  // A high price reverts every rounding that no policy requests.
  Choice open = narrow;
  for (size_t i = 0; i < open.size(); ++i)
    if (search.planned[i])
      open[i] = kFree;
  EXPECT_LE(search.plan(open, 0).cost, search.plan(open, 1e18).cost);
  EXPECT_GE(search.plan(open, 0).error, search.plan(open, 1e18).error);
}

TEST_F(TypeSpaceTest, StartsFromBuiltInPolicies) {
  func::FuncOp function = parse(kLayers);
  PolicySearchSpace types =
      space(function, {PolicyType::Float16, PolicyType::BFloat16});
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  BudgetSearchProblem search = types.searchSpace(sensitivity);
  ASSERT_EQ(search.starts.size(), 2u);
  BudgetSearch finder(search);
  PricedConfiguration wide = finder.widest();
  for (const PricedConfiguration &start : finder.starts()) {
    EXPECT_FALSE(llvm::is_contained(start.choice, kFree));
    EXPECT_LT(start.cost, wide.cost);
    std::optional<PricedConfiguration> found = finder.within(start.error);
    ASSERT_TRUE(found);
    EXPECT_LE(found->cost, start.cost);
  }
  // Types that are not allowed are no start.
  PolicySearchSpace half = space(function, {PolicyType::Float16});
  EXPECT_EQ(half.searchSpace(sensitivity).starts.size(), 1u);
}

/// Quantized weights that the target's kernels unpack are choices of f32
/// matmuls, and cost their bytes.
TEST_F(TypeSpaceTest, WeightTypesAreOptionsOfTheirMatmuls) {
  func::FuncOp function = parse(R"(
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = mpc.constant dense<0.3> : tensor<64x64xf32>
  %v = mpc.constant dense_resource<weights> : tensor<64x64xf32>
  %0 = mpc.matmul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("splat")
  %1 = mpc.matmul %0, %v : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("a")
  return %1 : tensor<64x64xf32>
}
{-# dialect_resources: { builtin: { weights: "0x04000000)" +
                                resourceOf(64 * 64) + R"(" } } #-})");
  std::vector<WeightFormat> forms = {
      {WeightType::Int16}, {WeightType::Int8}, {WeightType::Int4}};
  PolicySearchSpace types =
      space(function, {PolicyType::Float16}, TuningObjective::Bytes, forms);
  std::vector<std::vector<std::string>> texts;
  for (const PolicySearchSpace::Variable &variable : types.getVariables())
    if (variable.isProduct) {
      texts.emplace_back();
      for (const PolicySearchSpace::Option &option : variable.options)
        texts.back().push_back(option.text());
    }
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], (std::vector<std::string>{"float32", "float16"}));
  EXPECT_EQ(
      texts[1],
      (std::vector<std::string>{
          "float32", "float16", "float32 with weights in int16",
          "float32 with weights in int8", "float16 with weights in int8",
          "float32 with weights in int4", "float16 with weights in int4"}));
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  types.considerWeights(sensitivity, [](Operation *op) { return op; });
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  BudgetSearchProblem search = types.searchSpace(sensitivity);
  auto with = [&](int option) {
    Choice choice(search.options.size(), 0);
    choice[1] = option;
    return search.plan(choice, 0);
  };
  constexpr double kElements = 64 * 64, kScales = 64 * 4;
  PricedConfiguration wide = with(0), halves = with(1), words = with(2),
                      bytes = with(3), halfBytes = with(4), nibbles = with(5);
  EXPECT_EQ(wide.cost - words.cost, 2 * kElements - kScales);
  EXPECT_EQ(wide.cost - bytes.cost, 3 * kElements - kScales);
  EXPECT_EQ(wide.cost - nibbles.cost, 3.5 * kElements - 2 * kElements / 32);
  EXPECT_EQ(halves.cost - halfBytes.cost, kElements - kScales);
  EXPECT_EQ(wide.error, 0);
  EXPECT_GT(words.error, 0);
  EXPECT_GT(bytes.error, 1e3 * words.error);
  EXPECT_GT(nibbles.error, 10 * bytes.error);

  // All in one format; the constant of equal numbers has none, and the value
  // stays in f32.
  std::vector<Choice> uniform = types.uniformWeights();
  EXPECT_EQ(uniform, (std::vector<Choice>{{0, 2, 0}, {0, 3, 0}, {0, 5, 0}}));
  EXPECT_EQ(types.countWeights(), int64_t(kElements));
  EXPECT_EQ(types.weightBytes({0, 0, 0}), 4 * kElements);
  EXPECT_EQ(types.weightBytes({0, 1, 0}), 2 * kElements);
  EXPECT_EQ(types.weightBytes(uniform[1]), kElements + kScales);

  // Memory holds them once.
  PolicySearchSpace memory =
      space(function, {PolicyType::Float16}, TuningObjective::Memory, forms);
  search = memory.searchSpace(sensitivity);
  EXPECT_NEAR(with(0).cost - with(3).cost, 3 * kElements - kScales,
              1e-2 * kElements);

  // Panels of a unit for bfloat16 are dequantized for many rows, such as these;
  // float16 has no unit there.
  target = CastFusionTarget(*TargetInfo::parse("cpu:avx512bf16"));
  PolicySearchSpace unit =
      space(function, {PolicyType::BFloat16, PolicyType::Float16},
            TuningObjective::Bytes, forms);
  std::map<PolicyType, int> narrowForms;
  for (const PolicySearchSpace::Variable &variable : unit.getVariables())
    for (const PolicySearchSpace::Option &option : variable.options)
      if (option.weights.isNarrow())
        ++narrowForms[option.type];
  EXPECT_EQ(narrowForms[PolicyType::BFloat16], 2);
  EXPECT_EQ(narrowForms[PolicyType::Float16], 2);

  // GPUs store what they multiply.
  target = CastFusionTarget(*TargetInfo::parse("cuda:sm_80"));
  PolicySearchSpace other =
      space(function, {PolicyType::Float16}, TuningObjective::Bytes, forms);
  for (const PolicySearchSpace::Variable &variable : other.getVariables())
    for (const PolicySearchSpace::Option &option : variable.options)
      EXPECT_FALSE(option.weights.isNarrow());
}

TEST_F(TypeSpaceTest, MemoryCountsConstantsAndValuesBetweenKernels) {
  func::FuncOp function = parse(kLayers);
  std::vector<PolicyType> kinds = {PolicyType::Float16};
  PolicySearchSpace types = space(function, kinds, TuningObjective::Memory);
  Sensitivity sensitivity(function, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, 1))));
  BudgetSearchProblem search = types.searchSpace(sensitivity);
  // The weight is a splat. While the second matmul runs, the first result
  // is read, and the operand of the sum is written.
  constexpr double kValue = 64 * 64 * 4;
  PricedConfiguration wide = search.plan(Choice(search.options.size(), 0), 0);
  EXPECT_GE(wide.cost, kValue);
  EXPECT_LE(wide.cost, 3 * kValue);
  Choice narrow;
  for (int options : search.options)
    narrow.push_back(options - 1);
  EXPECT_LT(search.plan(narrow, 0).cost, wide.cost);
}

TEST(CostBudgetTest, ReadsSharesOfWhatFloat32Costs) {
  for (const char *text : {"time 0.6x", "bytes 1x", "memory 0.25x"}) {
    auto budget = CostBudget::parse(text);
    ASSERT_TRUE(bool(budget));
    ASSERT_TRUE(budget->has_value());
    EXPECT_EQ((*budget)->text(), text);
  }
  EXPECT_FALSE(llvm::cantFail(CostBudget::parse("rms 1e-3")));
  for (const char *text :
       {"time 2x", "time 0.6", "time 0x", "memory", "bytes"}) {
    auto budget = CostBudget::parse(text);
    EXPECT_FALSE(bool(budget)) << text;
    if (!budget)
      llvm::consumeError(budget.takeError());
  }
}

/// The search against all choices of random graphs: never over the limit, and
/// in 95 % within 5 % of the optimum.
TEST_F(TypeSpaceTest, ComesCloseToBruteForce) {
  int problems = 0, close = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    func::FuncOp function = parse(RandomGraph(seed, 40, 9).text());
    PolicySearchSpace types = space(function, {PolicyType::Float16});
    Sensitivity sensitivity(function, Budget::Measure::Rms);
    ASSERT_TRUE(succeeded(sensitivity.addSample(draw(function, seed))));
    BudgetSearchProblem search = types.searchSpace(sensitivity);
    size_t count = search.options.size();
    if (count < 2 || count > 6)
      continue;
    std::vector<PricedConfiguration> all;
    forAll(search, {},
           [&](const PricedConfiguration &found) { all.push_back(found); });
    double most = 0;
    for (const PricedConfiguration &found : all)
      if (std::isfinite(found.error))
        most = std::max(most, found.error);
    for (double part : {0.02, 0.3, 0.8}) {
      double limit = part * most;
      double best = INFINITY;
      for (const PricedConfiguration &found : all)
        if (found.error <= limit)
          best = std::min(best, found.cost);
      BudgetSearch finder(search);
      std::optional<PricedConfiguration> found = finder.within(limit);
      ASSERT_TRUE(found);
      EXPECT_LE(found->error, limit);
      ++problems;
      close += found->cost <= 1.05 * best;
    }
  }
  EXPECT_GE(problems, 60);
  EXPECT_GE(close, 95 * problems / 100) << problems;
  RecordProperty("problems", problems);
  RecordProperty("close", close);
}

/// Random choices, compiled and run with their types:
/// measured errors agree with the predicted ones.
TEST_F(TypeSpaceTest, PredictsWhatChoicesErr) {
  std::vector<double> correlations, ratios;
  std::mt19937 random(5);
  for (unsigned seed = 0; seed < 24; ++seed) {
    func::FuncOp function = parse(RandomGraph(seed, 40, 16).text());
    std::vector<Tensor> arguments = draw(function, seed);
    std::vector<PolicyType> kinds = {PolicyType::Float16, PolicyType::BFloat16};
    PolicySearchSpace types = space(function, kinds);
    Sensitivity sensitivity(function, Budget::Measure::Rms);
    FailureOr<SmallVector<Tensor>> wanted =
        sensitivity.addSample(arguments, /*draws=*/8);
    ASSERT_TRUE(succeeded(wanted));
    BudgetSearchProblem search = types.searchSpace(sensitivity);
    std::vector<double> predicted, measured;
    for (int i = 0; i < 20 && search.options.size() >= 3; ++i) {
      Choice choice;
      for (int options : search.options)
        choice.push_back(random() % options);
      double error = std::sqrt(search.plan(choice, 0).error);
      OwningOpRef<ModuleOp> copy(
          cast<ModuleOp>(function->getParentOp()->clone()));
      ErrorMeter meter(Budget::Measure::Rms);
      auto typed = *copy->getOps<func::FuncOp>().begin();
      ASSERT_TRUE(succeeded(assignPolicy(*copy, types, choice)));
      reference::InterpretOptions options;
      options.rounding = reference::Rounding::Declared;
      auto outputs = reference::interpret(typed, arguments, options);
      ASSERT_TRUE(succeeded(outputs));
      meter.add(*wanted, *outputs);
      // f32's own roundings, and what is no small error.
      if (meter.value() < 1e-5 || meter.value() > 0.1 || error == 0)
        continue;
      predicted.push_back(error);
      measured.push_back(meter.value());
      ratios.push_back(error / meter.value());
    }
    if (predicted.size() >= 12)
      correlations.push_back(rankCorrelation(predicted, measured));
  }
  ASSERT_GE(correlations.size(), 8u);
  EXPECT_GE(medianOf(correlations), 0.9);
  EXPECT_LT(medianOf(ratios), 2);
  EXPECT_GT(medianOf(ratios), 0.5);
  RecordProperty("correlation", std::to_string(medianOf(correlations)));
  RecordProperty("median_ratio", std::to_string(medianOf(ratios)));
}

TEST_F(TypeSpaceTest, ErrorsAreThoseOfTheSameOpAtOtherShapes) {
  auto text = [](const char *rows, const char *extra) {
    std::string type = "tensor<" + std::string(rows) + "x64xf32>";
    return "func.func @main(%x: " + type + ", %w: tensor<64x64xf32>) -> " +
           type + " {\n" + extra + "  %1 = mpc.matmul %x, %w : (" + type +
           ", tensor<64x64xf32>) -> " + type +
           " loc(\"a\")\n  %2 = mpc.exp %1 : " + type +
           " loc(\"a\")\n  %3 = mpc.exp %2 : " + type +
           " loc(\"b\")\n  return %3 : " + type + "\n}";
  };
  func::FuncOp step = parse(text("1", ""));
  func::FuncOp window =
      parse(text("8", "  %0 = mpc.exp %x : tensor<8x64xf32> loc(\"b\")\n"));
  CorrespondingOps ops(step, window);
  auto opOf = [](func::FuncOp function, int index) {
    return &*std::next(function.getBody().front().begin(), index);
  };
  EXPECT_EQ(ops.lookup(opOf(step, 0)), opOf(window, 1));
  EXPECT_EQ(ops.lookup(opOf(step, 1)), opOf(window, 2));
  // Only one of the functions has two of this kind and name.
  EXPECT_EQ(ops.lookup(opOf(step, 2)), nullptr);

  Sensitivity sensitivity(window, Budget::Measure::Rms);
  ASSERT_TRUE(succeeded(sensitivity.addSample(draw(window, 1))));
  CorrespondingErrors errors(ops, sensitivity);
  FloatType half = Float16Type::get(&context),
            full = Float32Type::get(&context);
  EXPECT_GT(errors.ofValue(opOf(step, 0)->getResult(0), half), 0);
  EXPECT_EQ(errors.ofValue(opOf(step, 0)->getResult(0), half),
            sensitivity.ofValue(opOf(window, 1)->getResult(0), half));
  EXPECT_EQ(errors.ofUse(opOf(step, 0)->getOpOperand(1), half),
            sensitivity.ofUse(opOf(window, 1)->getOpOperand(1), half));
  EXPECT_TRUE(std::isinf(errors.ofValue(opOf(step, 2)->getResult(0), half)));
  EXPECT_EQ(errors.ofValue(opOf(step, 2)->getResult(0), full), 0);
  EXPECT_TRUE(std::isinf(errors.ofUse(opOf(step, 2)->getOpOperand(0), half)));
}

TEST_F(TypeSpaceTest, ReadsASizeOfWeights) {
  llvm::Expected<std::optional<CostBudget>> budget =
      CostBudget::parse("bits 4.5");
  ASSERT_TRUE(bool(budget)) << llvm::toString(budget.takeError());
  EXPECT_EQ((*budget)->bits, 4.5);
  EXPECT_EQ((*budget)->share, 4.5 / 32);
  EXPECT_EQ((*budget)->objective, TuningObjective::Bytes);
  EXPECT_EQ((*budget)->text(), "bits 4.5");
  for (const char *text : {"bits", "bits 0", "bits 33", "bits 4x"}) {
    llvm::Expected<std::optional<CostBudget>> bad = CostBudget::parse(text);
    EXPECT_FALSE(bool(bad)) << text;
    llvm::consumeError(bad.takeError());
  }
}

} // namespace
