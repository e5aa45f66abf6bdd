//===- OptimizerTests.cpp - optimizers against PyTorch's ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs/optimizers.tar.xz holds trajectories of torch.optim (its plain loops),
// float32 bits after steps 1, 2, 10, 20, ... 50 on one stream of gradients.
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;
namespace json = llvm::json;

namespace {

/// Floats from hexadecimal words.
std::vector<double> floatsOf(StringRef words) {
  std::vector<double> values;
  SmallVector<StringRef> parts;
  words.split(parts, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    uint32_t bits = 0;
    EXPECT_FALSE(part.getAsInteger(16, bits)) << part.str();
    values.push_back(llvm::bit_cast<float>(bits));
  }
  return values;
}

class OptimizerTest : public ReferenceTest,
                      public testing::WithParamInterface<const char *> {
protected:
  json::Value read(StringRef name) {
    auto buffer =
        llvm::MemoryBuffer::getFile((MPC_OPTIMIZERS + name + ".json").str());
    EXPECT_TRUE(bool(buffer)) << name.str();
    llvm::Expected<json::Value> value =
        json::parse(buffer ? (*buffer)->getBuffer() : "null");
    EXPECT_TRUE(bool(value));
    return value ? std::move(*value) : json::Value(nullptr);
  }

  /// The op of torch's `optimizer` with its options.
  void parseOptimizer(StringRef optimizer, const json::Object &options) {
    static const std::pair<StringRef, StringRef> names[] = {
        {"eps", "epsilon"}, {"lr_decay", "learning_rate_decay"}};
    bool adamw = optimizer == "AdamW";
    std::string attributes = adamw ? "decoupled" : "";
    auto add = [&](const Twine &attribute) {
      attributes += (attributes.empty() ? "" : ", ") + attribute.str();
    };
    if (adamw && !options.get("weight_decay"))
      add("weight_decay = 0.01");
    for (const auto &[key, value] : options) {
      StringRef name = key;
      if (name == "lr" || name == "initial_accumulator_value")
        continue;
      if (const json::Array *betas = value.getAsArray()) {
        add(llvm::formatv("beta1 = {0:e17}", *(*betas)[0].getAsNumber()));
        add(llvm::formatv("beta2 = {0:e17}", *(*betas)[1].getAsNumber()));
        continue;
      }
      for (auto [theirs, ours] : names)
        if (name == theirs)
          name = ours;
      if (std::optional<bool> flag = value.getAsBoolean()) {
        if (*flag)
          add(name);
      } else {
        add(llvm::formatv("{0} = {1:e17}", name, *value.getAsNumber()));
      }
    }
    std::string kind = adamw ? "adam" : optimizer.lower();
    bool momentum = options.getNumber("momentum").value_or(0) != 0;
    if (kind == "adam")
      states = {"exp_avg", "exp_avg_sq"};
    if (kind == "adam" && options.getBoolean("amsgrad").value_or(false))
      states.push_back("max_exp_avg_sq");
    if (kind == "sgd" && momentum)
      states = {"momentum_buffer"};
    if (kind == "adagrad")
      states = {"sum"};
    if (kind == "rmsprop") {
      states = {"square_avg"};
      if (options.getBoolean("centered").value_or(false))
        states.push_back("grad_avg");
      if (momentum)
        states.push_back("momentum_buffer");
    }

    size_t count = states.size();
    std::string arguments, operands, types, results;
    for (size_t i = 0; i < count; ++i) {
      arguments += llvm::formatv(", %s{0}: tensor<?xf32>", i);
      operands += llvm::formatv("{0}%s{1}", i ? ", " : "", i);
    }
    for (size_t i = 0; i < count + 2; ++i)
      types += "tensor<?xf32>, ";
    for (size_t i = 0; i < count + 1; ++i)
      results += std::string(i ? ", " : "") + "tensor<?xf32>";
    std::string number = count ? ":" + std::to_string(count + 1) : "";
    std::string returned = "%r" + std::string(count ? "#0" : "");
    for (size_t i = 0; i < count; ++i)
      returned += ", %r#" + std::to_string(i + 1);
    pattern = llvm::formatv(
        "func.func @f(%w: tensor<?xf32>, %g: tensor<?xf32>{0}, %t: "
        "tensor<i64>, %lr: tensor<f64>) -> ({1}) {{\n"
        "  %r{2} = mpc.optimizer.{3} %w, %g {4} step(%t) learning_rate(%lr) "
        "{{{5}} : ({6}tensor<i64>, tensor<f64>) -> {7}\n"
        "  return {8} : {1}\n}",
        arguments, results, number, kind,
        count ? "states(" + operands + ")" : "", attributes, types,
        count ? "(" + results + ")" : results, returned);
  }

  /// One step from `values`: parameter, then states.
  void step(std::vector<Tensor> &values, const Tensor &gradient, int64_t t,
            double rate) {
    Tensor steps = ints("tensor<i64>", {t}), lr = floats("tensor<f64>", {rate});
    SmallVector<Tensor> arguments = {values[0], gradient};
    arguments.append(values.begin() + 1, values.end());
    arguments.append({steps, lr});
    std::string text = pattern;
    std::string extent = std::to_string(gradient.size());
    for (size_t at; (at = text.find("<?x")) != std::string::npos;)
      text.replace(at + 1, 1, extent);
    SmallVector<Tensor> results =
        runFunction(text, arguments, {.rounding = Rounding::Declared});
    ASSERT_EQ(results.size(), values.size()) << messages << text;
    for (auto [value, result] : llvm::zip_equal(values, results))
      value = result;
  }

  Tensor vectorOf(ArrayRef<double> values) {
    return floats("tensor<" + std::to_string(values.size()) + "xf32>", values);
  }

  SmallVector<std::string> states;
  std::string pattern;
};

TEST_P(OptimizerTest, StaysWithinTwoUlpPerStepOfTorch) {
  json::Value stream = read("stream"), recording = read(GetParam());
  const json::Object &object = *recording.getAsObject();
  const json::Object &options = *object.getObject("options");
  parseOptimizer(*object.getString("optimizer"), options);
  const json::Array &gradients = *stream.getAsObject()->getArray("gradients");
  int compared = 0;
  for (StringRef name : {"w", "b"}) {
    std::vector<Tensor> values = {vectorOf(floatsOf(
        *stream.getAsObject()->getObject("initial")->getString(name)))};
    double start = options.getNumber("initial_accumulator_value").value_or(0);
    for (size_t i = 0; i < states.size(); ++i) {
      values.push_back(values[0]);
      llvm::fill(values.back().floats(),
                 roundTo(start, type("tensor<f32>").getElementType()));
    }
    int64_t done = 0;
    for (const json::Value &entry : *object.getArray("recorded")) {
      const json::Object &record = *entry.getAsObject();
      if (*record.getString("implementation") != "single")
        continue;
      int64_t target = *record.getInteger("step"), steps = target - done;
      for (; done < target; ++done)
        step(
            values,
            vectorOf(floatsOf(*gradients[done].getAsObject()->getString(name))),
            done, *options.getNumber("lr"));
      // Compare, then go on from what was recorded.
      for (size_t i = 0; i < values.size(); ++i) {
        StringRef bits = i == 0
                             ? *record.getObject("parameters")->getString(name)
                             : *record.getObject("state")->getString(
                                   (name + "." + states[i - 1]).str());
        std::vector<double> expected = floatsOf(bits);
        double largest = 0;
        for (double value : expected)
          largest = std::max(largest, std::fabs(value));
        double ulp =
            std::nextafter(static_cast<float>(largest), INFINITY) - largest;
        for (auto [actual, wanted] :
             llvm::zip_equal(values[i].floats(), expected))
          EXPECT_LE(std::fabs(actual - wanted),
                    2 * static_cast<double>(steps) * ulp)
              << GetParam() << " step " << target << " of " << name.str()
              << (i ? "." + states[i - 1] : "");
        values[i] = vectorOf(expected);
        ++compared;
      }
    }
  }
  // Eight records, two parameters.
  EXPECT_GE(compared, 14);
}

INSTANTIATE_TEST_SUITE_P(Torch, OptimizerTest,
                         testing::Values("00_sgd_f32", "03_sgd_f32",
                                         "05_sgd_f32", "07_sgd_f32",
                                         "09_adam_f32", "10_adam_f32",
                                         "13_adamw_f32", "15_adamw_f32",
                                         "16_rmsprop_f32", "19_rmsprop_f32",
                                         "21_adagrad_f32"));

//===----------------------------------------------------------------------===//
// Forms, flags and copies
//===----------------------------------------------------------------------===//

class UpdateTest : public ReferenceTest {
protected:
  /// Runs an op on scalars: parameter, gradient and `states` of one element.
  std::vector<double> update(StringRef kind, StringRef attributes, double w,
                             double g, const std::vector<double> &states,
                             int64_t step, double rate) {
    std::string operands, types = "tensor<1xf64>, tensor<1xf64>, ";
    SmallVector<Tensor> arguments = {floats("tensor<1xf64>", {w}),
                                     floats("tensor<1xf64>", {g})};
    SmallVector<StringRef> results = {"tensor<1xf64>"};
    for (double state : states) {
      operands +=
          (operands.empty() ? "%" : ", %") + std::to_string(arguments.size());
      arguments.push_back(floats("tensor<1xf64>", {state}));
      types += "tensor<1xf64>, ";
      results.push_back("tensor<1xf64>");
    }
    size_t next = arguments.size();
    arguments.push_back(ints("tensor<i64>", {step}));
    arguments.push_back(floats("tensor<f64>", {rate}));
    std::string text = llvm::formatv(
        "mpc.optimizer.{0} %0, %1 {1} step(%{2}) learning_rate(%{3}) {{{4}} : "
        "({5}tensor<i64>, tensor<f64>) -> ({6})",
        kind, states.empty() ? "" : "states(" + operands + ")", next, next + 1,
        attributes, types, llvm::join(results, ", "));
    std::vector<double> values;
    for (const Tensor &result : run(text, arguments, results))
      values.push_back(result.floats()[0]);
    return values;
  }

  /// The first moment of an Adam step in f32 whose gradient is `g * factor`.
  double moment(const std::string &attributes, double m, double g,
                double factor = 1) {
    SmallVector<Tensor> results =
        run("mpc.optimizer.adam %0, %1 states(%2, %0) step(%3) "
            "learning_rate(%4) unscale(%5) {" +
                attributes +
                "} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, "
                "tensor<1xf32>, tensor<i64>, tensor<f64>, tensor<f32>) -> "
                "(tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)",
            {floats("tensor<1xf32>", {1}), floats("tensor<1xf32>", {g}),
             floats("tensor<1xf32>", {m}), ints("tensor<i64>", {1}),
             floats("tensor<f64>", {1}), floats("tensor<f32>", {factor})},
            {"tensor<1xf32>", "tensor<1xf32>", "tensor<1xf32>"},
            Rounding::Declared);
    return results.size() == 3 ? results[1].floats()[0] : kNan;
  }

  static void expectClose(ArrayRef<double> actual, ArrayRef<double> expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (auto [a, b] : llvm::zip_equal(actual, expected))
      EXPECT_NEAR(a, b, 1e-14 * std::max(1.0, std::fabs(b)));
  }
};

TEST_F(UpdateTest, KerasMomentumMovesByTheBuffer) {
  std::string form = "form = #mpc<optimizer_form keras>, momentum = 0.9";
  double m = 0.9 * 0.5 - 0.1 * 2.0;
  expectClose(update("sgd", form, 1, 2, {0.5}, 3, 0.1), {1 + m, m});
  expectClose(update("sgd", form + ", nesterov", 1, 2, {0.5}, 3, 0.1),
              {1 + 0.9 * m - 0.1 * 2, m});
}

TEST_F(UpdateTest, TorchMomentumStartsWithTheGradient) {
  std::string text = "momentum = 0.9, dampening = 0.3";
  expectClose(update("sgd", text, 1, 2, {7}, 0, 0.1), {1 - 0.1 * 2, 2});
  double b = 0.9 * 7 + 0.7 * 2;
  expectClose(update("sgd", text, 1, 2, {7}, 1, 0.1), {1 - 0.1 * b, b});
}

TEST_F(UpdateTest, KerasAdamAddsEpsilonToTheRawRoot) {
  double m = 0.9 * 0.5 + 0.1 * 2, v = 0.999 * 3 + 0.001 * 4;
  double rate =
      0.1 * std::sqrt(1 - std::pow(0.999, 5)) / (1 - std::pow(0.9, 5));
  expectClose(update("adam",
                     "form = #mpc<optimizer_form keras>, epsilon = 0.25", 1, 2,
                     {0.5, 3}, 4, 0.1),
              {1 - rate * m / (std::sqrt(v) + 0.25), m, v});
}

TEST_F(UpdateTest, KerasRmspropAddsEpsilonUnderTheRoot) {
  std::string form = "form = #mpc<optimizer_form keras>, epsilon = 0.25";
  double v = 0.99 * 3 + 0.01 * 4;
  double d = 0.1 * 2 / std::sqrt(v + 0.25);
  expectClose(update("rmsprop", form, 1, 2, {3}, 4, 0.1), {1 - d, v});
  double b = 0.5 * 0.125 + d;
  expectClose(
      update("rmsprop", form + ", momentum = 0.5", 1, 2, {3, 0.125}, 4, 0.1),
      {1 - b, v, b});
  double a = 0.99 * 0.5 + 0.01 * 2;
  expectClose(update("rmsprop", form + ", centered", 1, 2, {3, 0.5}, 4, 0.1),
              {1 - 0.1 * 2 / std::sqrt(v - a * a + 0.25), v, a});
}

TEST_F(UpdateTest, KerasAdagradAddsEpsilonUnderTheRoot) {
  expectClose(update("adagrad",
                     "form = #mpc<optimizer_form keras>, epsilon = 0.25", 1, 2,
                     {3}, 4, 0.1),
              {1 - 0.1 * 2 / std::sqrt(7.25), 7});
}

TEST_F(UpdateTest, FusedProductsAreRoundedWithTheirSum) {
  // 0.9f * (1 + 2^-23) + g where g is the negative rounded product: the result
  // is the rounding error of the product, which only a fused multiply-add has.
  double keep = 0.9f, b = 1 + 0x1p-23;
  double rounded = static_cast<float>(keep * b), error = keep * b - rounded;
  ASSERT_NE(error, 0);
  auto buffer = [&](StringRef attributes) {
    SmallVector<Tensor> results =
        run(("mpc.optimizer.sgd %0, %1 states(%2) step(%3) learning_rate(%4) "
             "{momentum = 0.9" +
             attributes +
             "} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<i64>, "
             "tensor<f64>) -> (tensor<1xf32>, tensor<1xf32>)")
                .str(),
            {floats("tensor<1xf32>", {0}), floats("tensor<1xf32>", {-rounded}),
             floats("tensor<1xf32>", {b}), ints("tensor<i64>", {1}),
             floats("tensor<f64>", {-1})},
            {"tensor<1xf32>", "tensor<1xf32>"}, Rounding::Declared);
    return results.size() == 2 ? results[1].floats()[0] : kNan;
  };
  // A rate of -1 makes the Keras variant add the gradient, too.
  std::string keras = ", form = #mpc<optimizer_form keras>";
  EXPECT_EQ(buffer(""), 0);
  EXPECT_EQ(buffer(", fuse = \"first\""), error);
  EXPECT_EQ(buffer(", fuse = \"last\""), 0);
  EXPECT_EQ(buffer(keras), 0);
  EXPECT_EQ(buffer(keras + ", fuse = \"first\""), error);
  EXPECT_EQ(buffer(keras + ", fuse = \"last\""), 0);
}

TEST_F(UpdateTest, FirstMomentsMoveOrBlend) {
  auto round = [](double value) -> double { return static_cast<float>(value); };
  double m = 1.1f, g = -9.7f, share = round(1 - 0.9), keep = round(0.9);
  double fused = round(m + share * round(g - m));
  double plain = round(m + round(share * round(g - m)));
  double blended = round(round(keep * m) + share * g);
  ASSERT_NE(fused, plain);
  ASSERT_NE(fused, blended);
  EXPECT_EQ(moment("", m, g), fused);
  EXPECT_EQ(moment("fuse = \"none\"", m, g), plain);
  EXPECT_EQ(moment("fuse = \"last\"", m, g), blended);
  EXPECT_EQ(moment("form = #mpc<optimizer_form keras>", m, g), plain);
}

// In JAX the product of clipping is rounded with the difference to the average.
TEST_F(UpdateTest, KerasOnJaxFusesTheMultiplier) {
  double m = 1.1f, g = -9.33f, factor = 0.7f;
  auto round = [](double value) -> double { return static_cast<float>(value); };
  double share = round(1 - 0.9);
  double fused = round(m + share * round(g * factor - m));
  double rounded = round(m + share * round(round(g * factor) - m));
  double coupled = round(m + share * round(round(round(g * factor) + 0.5) - m));
  ASSERT_NE(fused, rounded);
  std::string keras = "fuse = \"first\", form = #mpc<optimizer_form keras>";
  EXPECT_EQ(moment(keras, m, g, factor), fused);
  EXPECT_EQ(moment("", m, g, factor), rounded);
  EXPECT_EQ(moment(keras + ", weight_decay = 0.5", m, g, factor), coupled);
}

TEST_F(UpdateTest, DecayIsCoupledOrDecoupled) {
  expectClose(update("sgd", "weight_decay = 0.5", 4, 2, {}, 0, 0.1),
              {4 - 0.1 * (2 + 0.5 * 4)});
  expectClose(update("sgd", "weight_decay = 0.5, decoupled", 4, 2, {}, 0, 0.1),
              {4 * (1 - 0.1 * 0.5) - 0.1 * 2});
}

TEST_F(UpdateTest, MovesByLargeSharesFromTheFarEnd) {
  // beta1 = 0: the first moment is the gradient itself, however large it was.
  std::vector<double> values =
      update("adam", "beta1 = 0.0", 0, 1e-9, {1e9, 1}, 0, 0.1);
  EXPECT_EQ(values[1], 1e-9);
}

TEST_F(UpdateTest, UnscalesBeforeAllElseAndWritesTheCopy) {
  Tensor w = floats("tensor<2xf32>", {1, 1.0009765625}),
         g = floats("tensor<2xf16>", {1024, -2048}),
         t = ints("tensor<i64>", {0}), lr = floats("tensor<f64>", {1}),
         inverse = floats("tensor<f32>", {0x1p-20}),
         scale = floats("tensor<f32>", {0x1p20}), yes = ints("tensor<i1>", {1}),
         no = ints("tensor<i1>", {0});
  auto step = [&](StringRef attributes, const Tensor &when,
                  const Tensor &unscale) {
    return run(("mpc.optimizer.sgd %0, %1 step(%2) learning_rate(%3) when(%4) "
                "unscale(%5) {" +
                attributes +
                "} : (tensor<2xf32>, tensor<2xf16>, tensor<i64>, tensor<f64>, "
                "tensor<i1>, tensor<f32>) -> (tensor<2xf32>, tensor<2xbf16>)")
                   .str(),
               {w, g, t, lr, when, unscale},
               {"tensor<2xf32>", "tensor<2xbf16>"}, Rounding::Declared);
  };
  for (auto results :
       {step("", yes, inverse),
        step("unscale_mode = #mpc<unscale_mode divide>", yes, scale)}) {
    expectNear(results[0], {1 - 0x1p-10, 1.0009765625 + 0x1p-9}, 0);
    expectNear(results[1], {1, 1}, 0);
  }
  SmallVector<Tensor> raised = step("maximize", yes, inverse);
  expectNear(raised[0], {1 + 0x1p-10, 1.0009765625 - 0x1p-9}, 0);
  SmallVector<Tensor> skipped = step("", no, inverse);
  expectNear(skipped[0], {1, 1.0009765625}, 0);
  expectNear(skipped[1], {1, 1}, 0);
}

TEST_F(UpdateTest, ASkippedStepKeepsEveryBit) {
  Tensor w = floats("tensor<2xf32>", {1, -0.0}),
         g = floats("tensor<2xf32>", {kNan, kInf}),
         m = floats("tensor<2xf32>", {-0.0, 3}),
         v = floats("tensor<2xf32>", {0, 2}), t = ints("tensor<i64>", {5}),
         lr = floats("tensor<f32>", {0.1}), no = ints("tensor<i1>", {0});
  SmallVector<Tensor> results = run(
      "mpc.optimizer.adam %0, %1 states(%2, %3) step(%4) learning_rate(%5) "
      "when(%6) {weight_decay = 0.1, decoupled} : (tensor<2xf32>, "
      "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i64>, tensor<f32>, "
      "tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)",
      {w, g, m, v, t, lr, no},
      {"tensor<2xf32>", "tensor<2xf32>", "tensor<2xf32>"}, Rounding::Declared);
  ASSERT_EQ(results.size(), 3u);
  SmallVector<Tensor> operands = {w, m, v};
  for (auto [result, operand] : llvm::zip_equal(results, operands))
    for (auto [a, b] : llvm::zip_equal(result.floats(), operand.floats()))
      EXPECT_EQ(llvm::bit_cast<uint64_t>(a), llvm::bit_cast<uint64_t>(b));
}

} // namespace
