//===- KnownRangesPropertyTest.cpp - range analysis of random graphs ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates random graphs whose inputs are bounded by clamps, types and
// positions, runs them in the reference interpreter and checks every value
// against the results of RangeAnalysis and IntegerValuedFloats.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/IntegerValuedFloats.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mpc;

namespace {

/// Generates @main: floats and integers of one shape, op by op.
class BoundedGraph {
public:
  explicit BoundedGraph(unsigned seed) : random(seed) {
    const char *shapes[] = {"3x4", "1x5", "2x1", "0x3", "7x2"};
    int rows[] = {3, 1, 2, 0, 7}, columns[] = {4, 5, 1, 3, 2};
    int chosen = draw(4);
    shape = shapes[chosen];
    this->rows = rows[chosen];
    this->columns = columns[chosen];
    floats = {"%x", "%y"};
    ints = {"%n", "%b8"};
    emit(floats, cast("%b", "ui8", "f32"));
    for (int i = 0; i < 14; ++i)
      addOp();
  }

  std::string text() const {
    return "func.func @main(%x: " + type("f32") + ", %y: " + type("f32") +
           ", %n: " + type("i32") + ", %b: " + type("ui8") +
           ", %t: " + type("i1") + ") -> " + type("f32") +
           " {\n  %b8 = mpc.cast %b : " + type("ui8") + " to " + type("i32") +
           "\n" + body + "  return %x : " + type("f32") + "\n}\n";
  }

private:
  int draw(int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  }
  std::string type(const std::string &element) const {
    return "tensor<" + shape + "x" + element + ">";
  }
  std::string scalar(const std::string &element) const {
    return "tensor<" + element + ">";
  }
  const std::string &pick(const std::vector<std::string> &values) {
    int last = int(values.size()) - 1;
    return values[std::max(draw(last), draw(last))];
  }
  std::string line(const std::string &op) {
    std::string name = "%" + std::to_string(count++);
    body += "  " + name + " = mpc." + op + "\n";
    return name;
  }
  void emit(std::vector<std::string> &values, const std::string &op) {
    values.push_back(line(op));
  }
  std::string number() {
    const char *numbers[] = {"-300.0", "-2.5", "-1.0", "0.0",   "0.25",
                             "0.75",   "1.0",  "2.0",  "300.0", "1.0e9"};
    return numbers[draw(9)];
  }
  std::string constant() {
    return line("constant dense<" + number() + "> : " + scalar("f32"));
  }
  std::string intConstant() {
    const char *numbers[] = {"-7", "-1", "0", "1", "2", "3", "100000"};
    return line(std::string("constant dense<") + numbers[draw(6)] +
                "> : " + scalar("i32"));
  }
  std::string cast(const std::string &value, const std::string &from,
                   const std::string &to) {
    return "cast " + value + " : " + type(from) + " to " + type(to);
  }
  std::string unary(const char *op, const std::string &value,
                    const std::string &element) {
    return std::string(op) + " " + value + " : " + type(element);
  }
  std::string binary(const char *op, const std::string &lhs,
                     const std::string &rhs, const std::string &right,
                     const std::string &element) {
    return std::string(op) + " " + lhs + ", " + rhs + " : (" + type(element) +
           ", " + right + ") -> " + type(element);
  }

  void addOp() {
    static const char *unaries[] = {
        "abs",   "neg",   "sign",       "floor", "ceil",  "round",    "exp",
        "sqrt",  "tanh",  "erf",        "sin",   "cos",   "sigmoid",  "relu",
        "log",   "rsqrt", "reciprocal", "gelu",  "silu",  "softplus", "asin",
        "acos",  "atan",  "sinh",       "cosh",  "asinh", "tan",      "acosh",
        "atanh", "expm1", "log1p"};
    static const char *binaries[] = {"add", "sub", "mul", "div",
                                     "max", "min", "pow", "rem"};
    switch (draw(12)) {
    case 0:
    case 1:
      return emit(floats, unary(unaries[draw(std::size(unaries) - 1)],
                                pick(floats), "f32"));
    case 2:
      return emit(floats, binary(binaries[draw(7)], pick(floats), pick(floats),
                                 type("f32"), "f32"));
    case 3:
      return emit(floats, binary(binaries[draw(7)], pick(floats), constant(),
                                 scalar("f32"), "f32"));
    case 4: {
      std::string low = constant(), high = constant();
      return emit(floats, "clamp " + pick(floats) + ", " + low + ", " + high +
                              " : (" + type("f32") + ", " + scalar("f32") +
                              ", " + scalar("f32") + ") -> " + type("f32"));
    }
    case 5: {
      // Bounds that are no constants, in any order.
      std::string low = pick(floats), high = pick(floats);
      return emit(floats, "clamp " + pick(floats) + ", " + low + ", " + high +
                              " : (" + type("f32") + ", " + type("f32") + ", " +
                              type("f32") + ") -> " + type("f32"));
    }
    case 6:
      return addIntegers();
    case 7:
      return emit(floats, cast(pick(ints), "i32", "f32"));
    case 8:
      return emit(ints, cast(pick(floats), "f32", "i32"));
    case 9:
      return emit(floats, "cumsum " + pick(floats) + " axis(" +
                              std::to_string(draw(1)) + ")" +
                              (draw(1) ? " exclusive" : "") +
                              (draw(1) ? " reverse" : "") + " : " +
                              type("f32"));
    case 10:
      return addReduction();
    case 11:
      return emit(floats, "select %t, " + pick(floats) + ", " + pick(floats) +
                              " : (" + type("i1") + ", " + type("f32") + ", " +
                              type("f32") + ") -> " + type("f32"));
    case 12:
      return addMovement();
    }
  }

  void addIntegers() {
    static const char *binaries[] = {"add", "sub", "mul", "div", "max", "min"};
    const char *op = binaries[draw(5)];
    std::string lhs = pick(ints);
    bool withConstant = draw(1);
    std::string rhs = withConstant ? intConstant() : pick(ints);
    emit(ints, binary(op, lhs, rhs, withConstant ? scalar("i32") : type("i32"),
                      "i32"));
  }

  void addReduction() {
    static const char *reductions[] = {
        "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"};
    bool isInteger = draw(2) == 0;
    std::vector<std::string> &values = isInteger ? ints : floats;
    std::string element = isInteger ? "i32" : "f32";
    bool overRows = draw(1);
    std::string reduced = overRows ? "tensor<1x" + std::to_string(columns)
                                   : "tensor<" + std::to_string(rows) + "x1";
    reduced += "x" + element + ">";
    std::string sum =
        line(std::string(reductions[draw(4)]) + " " + pick(values) + " axes([" +
             (overRows ? "0" : "1") + "]) keep_dims : " + type(element) +
             " -> " + reduced);
    emit(values, "broadcast " + sum + " : " + reduced + " to " + type(element));
  }

  void addMovement() {
    if (draw(1)) {
      std::string positions =
          line("iota axis(" + std::to_string(draw(1)) + ") : " + type("i32"));
      ints.push_back(positions);
      return;
    }
    std::string fill = constant();
    std::string wide = "tensor<" + std::to_string(rows + 1) + "x" +
                       std::to_string(columns) + "xf32>";
    std::string padded = line("pad " + pick(floats) + ", " + fill +
                              " low([1, 0]) high([0, 0]) : (" + type("f32") +
                              ", " + scalar("f32") + ") -> " + wide);
    emit(floats, "slice " + padded + " [0, 0] [" + std::to_string(rows) + ", " +
                     std::to_string(columns) + "] : " + wide + " to " +
                     type("f32"));
  }

  std::mt19937 random;
  std::string shape, body;
  int rows = 0, columns = 0, count = 0;
  std::vector<std::string> floats, ints;
};

/// Returns true if `value` is in `range`, up to the rounding errors of the
/// computed bounds.
bool isInside(double value, KnownRange range) {
  auto slack = [](double end) {
    return std::isfinite(end) ? 1e-12 * std::abs(end) + 1e-300 : 0;
  };
  return std::isnan(value) || (value >= range.low - slack(range.low) &&
                               value <= range.high + slack(range.high));
}

class KnownRangesPropertyTest : public ::testing::Test {
protected:
  KnownRangesPropertyTest() {
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.disableMultithreading();
  }

  /// Small and large numbers, ends of types, infinities and NaN.
  reference::Tensor drawTensor(RankedTensorType type, std::mt19937 &random) {
    static const double floats[] = {0,    -0.0, 0.5,  1,     -1,  2,
                                    -3.5, 1e-3, 1e30, -1e30, 257, -70000};
    static const int64_t ints[] = {0, 1, -1, 7, 255, 1000, -1000};
    reference::Tensor tensor(type);
    auto pick = [&](auto &values) {
      return values[std::uniform_int_distribution<size_t>(0, std::size(values) -
                                                                 1)(random)];
    };
    for (double &value : tensor.floats())
      value = pick(floats);
    for (double &value : tensor.floats())
      if (random() % 16 == 0)
        value = random() % 2 ? std::numeric_limits<double>::quiet_NaN()
                             : std::numeric_limits<double>::infinity();
    for (int64_t &value : tensor.ints())
      value = reference::wrapTo(random() % 8 ? pick(ints) : int64_t(random()),
                                type.getElementType());
    return tensor;
  }

  /// Holds one op's results against the claims about them.
  void check(Operation *op, ArrayRef<reference::Tensor> results,
             const RangeAnalysis &ranges, const IntegerValuedFloats &integers) {
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
      KnownRange range = ranges.get(result);
      bounded += std::isfinite(range.low) || std::isfinite(range.high);
      bool isIntegral = tensor.isFloat() && integers.isIntegral(result);
      integral += isIntegral;
      for (double value : tensor.floats()) {
        expectClaim(isInside(value, range), op, value, range);
        if (isIntegral)
          expectClaim(!std::isfinite(value) || value == std::floor(value), op,
                      value, range);
      }
      for (int64_t value : tensor.ints())
        expectClaim(isInside(double(value), range), op, double(value), range);
    }
  }

  void expectClaim(bool holds, Operation *op, double value, KnownRange range) {
    if (holds)
      return;
    std::string text;
    llvm::raw_string_ostream(text) << *op;
    ADD_FAILURE() << text << " gives " << value << ", claimed [" << range.low
                  << ", " << range.high << "]";
  }

  MLIRContext context;
  int64_t bounded = 0, integral = 0;
};

TEST_F(KnownRangesPropertyTest, EveryValueIsInItsRange) {
  constexpr unsigned kGraphs = 1500;
  for (unsigned seed = 0; seed < kGraphs && !HasFailure(); ++seed) {
    std::string text = BoundedGraph(seed).text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    auto func = *module->getOps<func::FuncOp>().begin();
    RangeAnalysis ranges(func);
    IntegerValuedFloats integers(func);
    reference::InterpretOptions options;
    options.observer = [&](Operation *op, ArrayRef<reference::Tensor> results) {
      check(op, results, ranges, integers);
    };
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 3; ++repeat) {
      SmallVector<reference::Tensor> arguments;
      for (Type type : func.getArgumentTypes())
        arguments.push_back(drawTensor(cast<RankedTensorType>(type), random));
      ASSERT_TRUE(succeeded(reference::interpret(func, arguments, options)));
    }
  }
  // The claims are not empty.
  EXPECT_GT(bounded, 10000);
  EXPECT_GT(integral, 1000);
}

} // namespace
