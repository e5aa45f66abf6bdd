//===- VjpTests.cpp - VJPs against central differences --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every differentiable op on random shapes: the loss is the sum of its float
// results times random weights; its slope along a random direction by central
// differences in float64 is compared with the gradients' product with that
// direction.
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/Training/Differentiate.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;
using namespace mpc::vjptest;

namespace {

constexpr unsigned kSeeds = 8;

std::vector<OpCase> allCases() {
  std::vector<OpCase> cases = elementwiseCases();
  llvm::append_range(cases, structuredCases());
  llvm::append_range(cases, movementCases());
  llvm::append_range(cases, trainingCases());
  return cases;
}

/// The op's name without the case's suffix.
StringRef opName(const OpCase &opCase) {
  return StringRef(opCase.name).split(' ').first;
}

class Differentiating {
protected:
  Differentiating() {
    DialectRegistry registry;
    registry.insert<MpcDialect, func::FuncDialect>();
    registerVjpModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
    });
  }

  OwningOpRef<ModuleOp> parse(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << messages << text.str();
    return module;
  }
  static func::FuncOp theFunction(ModuleOp module) {
    return *module.getOps<func::FuncOp>().begin();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::string messages;
};

class VjpTest : public Differentiating,
                public testing::TestWithParam<OpCase> {};
class RecurrentVjpTest : public VjpTest {};
class StopGradientTest : public Differentiating, public testing::Test {};

/// A function whose loss is the weighted sum of the op's float results.
std::string functionOf(Draw &d) {
  std::string head = "func.func @f(", operands, body;
  for (auto [i, argument] : llvm::enumerate(d.arguments)) {
    std::string number = std::to_string(i);
    head += "%" + number + ": " + argument.type + " ";
    head += argument.isParameter
                ? "{mpc.role = #mpc.role<parameter>, mpc.name = \"p" + number +
                      "\"}, "
                : "{mpc.role = #mpc.role<input>}, ";
    operands += (i ? ", " : "") + argument.type;
  }
  std::string results = llvm::join(d.resultTypes, ", ");
  body +=
      "  %r:" + std::to_string(d.resultTypes.size()) + " = " + d.text + " : ";
  switch (d.types) {
  case Types::Functional:
    body += "(" + operands + ") -> (" + results + ")";
    break;
  case Types::Result:
    body += results;
    break;
  case Types::To:
    body += operands + " to " + results;
    break;
  case Types::Arrow:
    body += operands + " -> " + results;
    break;
  }
  body += "\n";
  std::string scalar = d.type({}), total;
  for (auto [i, shape] : llvm::enumerate(d.results)) {
    std::string n = std::to_string(i), type = d.type(shape);
    head += "%w" + n + ": " + type + " {mpc.role = #mpc.role<input>}, ";
    body += "  %m" + n + " = mpc.mul %r#" + n + ", %w" + n + " : (" + type +
            ", " + type + ") -> " + type + "\n";
    Shape axes;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      axes.push_back(axis);
    body += "  %s" + n + " = mpc.reduce_sum %m" + n + " axes(" + list(axes) +
            ") : " + type + " -> " + scalar + "\n";
    if (i == 0)
      total = "%s0";
    else {
      body += "  %t" + n + " = mpc.add " + total + ", %s" + n + " : (" +
              scalar + ", " + scalar + ") -> " + scalar + "\n";
      total = "%t" + n;
    }
  }
  head.resize(head.size() - 2);
  return head + ") -> (" + scalar +
         " {mpc.role = #mpc.role<loss>, mpc.name = \"loss\"}) {\n" + body +
         "  return " + total + " : " + scalar + "\n}\n";
}

std::vector<Tensor> drawArguments(Draw &d, func::FuncOp function) {
  std::vector<Tensor> values;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Tensor tensor(cast<RankedTensorType>(type));
    Domain domain = i < d.arguments.size() ? d.arguments[i].domain : normal;
    for (double &value : tensor.floats())
      value = domain(d.generator);
    for (int64_t &value : tensor.ints())
      value = d.extent(d.arguments[i].low, d.arguments[i].high);
    values.push_back(std::move(tensor));
  }
  return values;
}

TEST_P(VjpTest, AgreesWithCentralDifferences) {
  double allNorms = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    Draw d(seed, "f64");
    GetParam().draw(d);
    std::string text = functionOf(d);
    OwningOpRef<ModuleOp> module = parse(text);
    if (!module)
      return;
    func::FuncOp forward = theFunction(*module);
    OwningOpRef<ModuleOp> copy = module->clone();
    func::FuncOp backward = theFunction(*copy);
    ASSERT_TRUE(succeeded(differentiate(backward))) << messages << text;
    ASSERT_TRUE(succeeded(verify(*copy))) << messages << text;

    std::vector<Tensor> values = drawArguments(d, forward), direction = values;
    for (auto [tensor, argument] : llvm::zip(direction, d.arguments))
      for (double &value : tensor.floats())
        value = argument.isParameter ? normal(d.generator) : 0.0;
    auto lossAt = [&](double step) {
      std::vector<Tensor> moved = values;
      for (size_t i = 0; i < d.arguments.size(); ++i)
        for (auto [value, along] :
             llvm::zip(moved[i].floats(), direction[i].floats()))
          value += step * along;
      auto results = interpret(forward, moved, {});
      return succeeded(results) ? results->front().floats()[0] : std::nan("");
    };
    // Fourth order.
    constexpr double kStep = 1e-4;
    double slope = (8 * (lossAt(kStep) - lossAt(-kStep)) -
                    (lossAt(2 * kStep) - lossAt(-2 * kStep))) /
                   (12 * kStep);

    auto results = interpret(backward, values, {});
    ASSERT_TRUE(succeeded(results)) << messages << text;
    double product = 0, gradientNorm = 0, directionNorm = 0;
    size_t next = 1;
    for (size_t i = 0; i < d.arguments.size(); ++i) {
      if (!d.arguments[i].isParameter)
        continue;
      ASSERT_LT(next, results->size());
      const Tensor &gradient = (*results)[next++];
      ASSERT_EQ(gradient.getType(), values[i].getType());
      for (auto [g, along] :
           llvm::zip(gradient.floats(), direction[i].floats())) {
        product += g * along;
        gradientNorm += g * g;
        directionNorm += along * along;
      }
    }
    EXPECT_EQ(next, results->size());
    allNorms += gradientNorm;
    EXPECT_NEAR(product, slope,
                1e-6 * std::sqrt(gradientNorm * directionNorm) + 1e-300)
        << "seed " << seed << "\n"
        << text;
  }
  bool isFlat = llvm::is_contained(
      {"mpc.sign", "mpc.floor", "mpc.ceil", "mpc.round"}, opName(GetParam()));
  EXPECT_EQ(allNorms == 0, isFlat);
}

/// Split, recurrent ops have the gradients that they have unrolled.
TEST_P(RecurrentVjpTest, IsTheSameSplit) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    Draw d(seed, "f64");
    GetParam().draw(d);
    OwningOpRef<ModuleOp> unrolled = parse(functionOf(d)),
                          split = unrolled->clone();
    ASSERT_TRUE(succeeded(differentiate(theFunction(*unrolled)))) << messages;
    auto counts = differentiate(theFunction(*split), {.splitRecurrent = true});
    ASSERT_TRUE(succeeded(counts)) << messages;
    EXPECT_EQ(counts->split, 1);
    EXPECT_EQ(counts->unrolled, 0);
    ASSERT_TRUE(succeeded(verify(*split))) << messages;
    std::vector<Tensor> values = drawArguments(d, theFunction(*unrolled));
    auto expected = interpret(theFunction(*unrolled), values, {}),
         found = interpret(theFunction(*split), values, {});
    ASSERT_TRUE(succeeded(expected) && succeeded(found)) << messages;
    ASSERT_EQ(expected->size(), found->size());
    for (auto [x, y] : llvm::zip(*expected, *found))
      for (auto [a, b] : llvm::zip(x.floats(), y.floats()))
        EXPECT_NEAR(a, b, 1e-12 * (1 + std::abs(a)));
  }
}

/// Types match in 16 bits, too, where derivatives upcast in between.
TEST_P(VjpTest, HasTheOperandsTypes) {
  for (StringRef element : {"f16", "bf16", "f32"}) {
    Draw d(/*seed=*/7, element.str());
    GetParam().draw(d);
    std::string text = functionOf(d);
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(module);
    ASSERT_TRUE(succeeded(differentiate(theFunction(*module))))
        << messages << text;
    EXPECT_TRUE(succeeded(verify(*module))) << messages << text;
  }
}

std::string nameOf(const testing::TestParamInfo<OpCase> &info) {
  std::string name(info.param.name);
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

std::vector<OpCase> recurrentCases() {
  std::vector<OpCase> cases = trainingCases();
  std::erase_if(cases, [](const OpCase &opCase) {
    return !llvm::is_contained({"mpc.lstm", "mpc.gru", "mpc.rnn"},
                               opName(opCase));
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(EveryOp, VjpTest, testing::ValuesIn(allCases()),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(EveryOp, RecurrentVjpTest,
                         testing::ValuesIn(recurrentCases()), nameOf);

//===----------------------------------------------------------------------===//
// No op is forgotten
//===----------------------------------------------------------------------===//

TEST(EveryVjp, IsTestedOrExcused) {
  DialectRegistry registry;
  registry.insert<MpcDialect>();
  registerVjpModels(registry);
  MLIRContext context(registry);
  context.loadDialect<MpcDialect>();
  llvm::StringSet<> tested;
  for (const OpCase &opCase : allCases())
    tested.insert(opName(opCase));
  tested.insert("mpc.stop_gradient"); // below
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (name.getDialectNamespace() != "mpc")
      continue;
    bool excused =
        llvm::is_contained(nonDifferentiableOps(), name.getStringRef());
    EXPECT_NE(name.hasInterface<VjpOpInterface>(), excused)
        << name.getStringRef().str()
        << " needs a derivative or an entry in nonDifferentiableOps()";
    if (!excused) {
      EXPECT_TRUE(tested.contains(name.getStringRef()))
          << name.getStringRef().str() << " is not tested";
    }
  }
  for (StringRef name : nonDifferentiableOps())
    EXPECT_TRUE(RegisteredOperationName::lookup(name, &context))
        << name.str() << " is no op";
}

TEST_F(StopGradientTest, LetsNothingThrough) {
  // x * stop_gradient(x): the slope is x, not 2 * x.
  OwningOpRef<ModuleOp> module = parse(R"(
    func.func @f(%x: tensor<f64> {mpc.role = #mpc.role<parameter>, mpc.name = "x"})
        -> (tensor<f64> {mpc.role = #mpc.role<loss>}) {
      %s = mpc.stop_gradient %x : tensor<f64>
      %y = mpc.mul %x, %s : (tensor<f64>, tensor<f64>) -> tensor<f64>
      return %y : tensor<f64>
    })");
  ASSERT_TRUE(module);
  func::FuncOp function = theFunction(*module);
  ASSERT_TRUE(succeeded(differentiate(function))) << messages;
  Tensor x(cast<RankedTensorType>(function.getArgumentTypes()[0]));
  x.floats()[0] = 3;
  auto results = interpret(function, {x}, {});
  ASSERT_TRUE(succeeded(results)) << messages;
  EXPECT_EQ((*results)[1].floats()[0], 3);
}

} // namespace
