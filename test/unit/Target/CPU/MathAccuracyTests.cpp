//===- MathAccuracyTests.cpp - errors of inline functions in ulps ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled functions against the C library in higher precision, over values
// that cover each function's range.
//
//===----------------------------------------------------------------------===//

#include "CompiledKernel.h"
#include "KernelRunner.h"
#include "NativeMath.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
/// Numbers between the bit patterns of `low` and `high`, denser near them.
template <typename T> std::vector<T> sample(T low, T high, int64_t count) {
  std::mt19937_64 engine(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<T> values = {low, high};
  while (static_cast<int64_t>(values.size()) < count) {
    // Half of them uniformly, half with uniform exponents.
    double u = uniform(engine);
    if (values.size() % 2) {
      values.push_back(
          static_cast<T>(low + (static_cast<long double>(high) - low) * u));
      continue;
    }
    double limit = std::max(std::abs(static_cast<double>(low)),
                            std::abs(static_cast<double>(high)));
    double least = std::is_same_v<T, float> ? 1e-40 : 1e-300;
    double value =
        std::exp(std::log(least) + (std::log(limit) - std::log(least)) * u);
    if (low < 0 && engine() % 2)
      value = -value;
    T rounded = static_cast<T>(value);
    if (rounded >= low && rounded <= high)
      values.push_back(rounded);
  }
  return values;
}

/// |actual - expected| in units of the last place of T at `expected`.
template <typename T> double ulps(T actual, long double expected) {
  T nearest = static_cast<T>(expected);
  if (std::isnan(nearest) || std::isnan(actual))
    return std::isnan(nearest) == std::isnan(actual) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(actual))
    return nearest == actual
               ? 0
               : (std::isinf(nearest) && std::isinf(actual) ? INFINITY : 1);
  int exponent;
  std::frexp(nearest, &exponent);
  int digits = std::numeric_limits<T>::digits;
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return static_cast<double>(
      std::abs(static_cast<long double>(actual) - expected) /
      std::ldexp(1.0L, exponent - digits));
}

using Function = long double (*)(long double);

struct Case {
  const char *op;
  Function function;
  double low, high;
  /// Allowed error in ulps of f32 and f64.
  double single, wide;
};

template <typename T>
double worstError(const Case &c, CpuTarget target, double &where) {
  constexpr int64_t count = 20000;
  std::string type =
      "tensor<" + std::to_string(count) + (sizeof(T) == 4 ? "xf32>" : "xf64>");
  Compiled kernel(
      "func.func private @k(%x: " + type + ") -> " + type +
          " attributes {mpc.kernel_kind = \"elementwise\"} {\n%0 = mpc." +
          c.op + " : " + type + "\nreturn %0 : " + type + "\n}",
      target);
  if (!kernel.ok())
    return INFINITY;
  std::vector<T> input =
      sample<T>(static_cast<T>(c.low), static_cast<T>(c.high), count);
  std::vector<T> output(count);
  kernel.run({input.data(), output.data()});
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    double error = ulps(output[i], c.function(input[i]));
    if (error > worst) {
      worst = error;
      where = input[i];
    }
  }
  return worst;
}

long double gelu(long double x) {
  return x * erfcl(-x * 0.70710678118654752440084436L) / 2;
}
long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
long double softplus(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}
long double silu(long double x) { return x / (1 + expl(-x)); }
long double rsqrt(long double x) { return 1 / sqrtl(x); }

const Case kCases[] = {
    {"exp %x", expl, -110, 89, 1.5, 2},
    {"expm1 %x", expm1l, -30, 88, 2, 3},
    {"log %x", logl, 0, 1e38, 1.5, 2},
    {"log1p %x", log1pl, -0.999, 1e38, 3, 3},
    {"tanh %x", tanhl, -12, 12, 2, 3},
    {"sigmoid %x", sigmoid, -100, 100, 2.5, 3},
    {"softplus %x", softplus, -100, 100, 3, 4},
    {"silu %x", silu, -80, 80, 3.5, 4},
    {"erf %x", erfl, -6, 6, 2, 3},
    {"gelu %x", gelu, -12, 12, 4, 8},
    {"sin %x", sinl, -1e4, 1e4, 2, 2},
    {"cos %x", cosl, -1e4, 1e4, 2, 2},
    {"tan %x", tanl, -1e4, 1e4, 4, 4},
    {"asin %x", asinl, -1, 1, 3, 3},
    {"acos %x", acosl, -1, 1, 3, 3},
    {"atan %x", atanl, -1e6, 1e6, 3, 3},
    {"sinh %x", sinhl, -89, 89, 3, 4},
    {"cosh %x", coshl, -89, 89, 3, 4},
    {"asinh %x", asinhl, -1e30, 1e30, 4, 4},
    {"acosh %x", acoshl, 1, 1e30, 4, 4},
    {"atanh %x", atanhl, -0.9999, 0.9999, 4, 4},
    {"rsqrt %x", rsqrt, 1e-37, 1e37, 1.5, 1.5},
};
} // namespace

TEST(MathAccuracy, EveryFunctionStaysInsideItsBound) {
  for (CpuIsa isa : floatLevels())
    for (const Case &c : kCases) {
      CpuTarget target{isa};
      double where = 0;
      double single = worstError<float>(c, target, where);
      testing::Test::RecordProperty(std::string(c.op) + " f32",
                                    std::to_string(single));
      EXPECT_LE(single, c.single)
          << target.name().str() << " f32 " << c.op << " at " << where;
      double wide = worstError<double>(c, target, where);
      testing::Test::RecordProperty(std::string(c.op) + " f64",
                                    std::to_string(wide));
      EXPECT_LE(wide, c.wide)
          << target.name().str() << " f64 " << c.op << " at " << where;
    }
}

// Arguments of 1e38 turns only need the fraction of the last turn.
TEST(MathAccuracy, CirclesOfAnyArgument) {
  const Case cases[] = {{"sin %x", sinl, -3.4e38, 3.4e38, 2, 0},
                        {"cos %x", cosl, -3.4e38, 3.4e38, 2, 0},
                        {"tan %x", tanl, -3.4e38, 3.4e38, 4, 0},
                        {"sin %x", sinl, -0x1p41, 0x1p41, 2, 0}};
  for (CpuIsa isa : floatLevels())
    for (const Case &c : cases) {
      CpuTarget target{isa};
      double where = 0;
      EXPECT_LE(worstError<float>(c, target, where), c.single)
          << target.name().str() << " " << c.op << " at " << where;
    }
}

TEST(MathAccuracy, PowersOfWideRange) {
  constexpr int64_t count = 20000;
  for (CpuIsa isa : floatLevels())
    for (bool wide : {false, true}) {
      CpuTarget target{isa};
      std::string type = std::string("tensor<20000xf") + (wide ? "64>" : "32>");
      Compiled kernel("func.func private @k(%x: " + type + ", %y: " + type +
                          ") -> " + type +
                          " attributes {mpc.kernel_kind = \"elementwise\"} {\n"
                          "%0 = mpc.pow %x, %y : (" +
                          type + ", " + type + ") -> " + type +
                          "\nreturn %0 : " + type + "\n}",
                      target);
      ASSERT_TRUE(kernel.ok());
      auto check = [&]<typename T>(T) {
        std::vector<T> x = sample<T>(T(1e-6), T(1e6), count), y(count),
                       output(count);
        std::mt19937_64 engine(3);
        std::uniform_real_distribution<T> exponent(-6, 6);
        for (T &value : y)
          value = exponent(engine);
        kernel.run({x.data(), y.data(), output.data()});
        double worst = 0;
        for (int64_t i = 0; i < count; ++i)
          worst = std::max(worst, ulps(output[i], powl(x[i], y[i])));
        EXPECT_LE(worst, wide ? 3 : 1)
            << target.name().str() << (wide ? " f64" : " f32");
      };
      if (wide)
        check(double());
      else
        check(float());
    }
}

/// Runs `op`, of two operands, on each pair of `x` and `y`.
template <typename T>
static std::vector<T> runBinary(const char *op, CpuTarget target,
                                std::vector<T> &x, std::vector<T> &y) {
  std::string type = "tensor<" + std::to_string(x.size()) +
                     (sizeof(T) == 4 ? "xf32>" : "xf64>");
  Compiled kernel("func.func private @k(%x: " + type + ", %y: " + type +
                      ") -> " + type +
                      " attributes {mpc.kernel_kind = \"elementwise\"} {\n"
                      "%0 = mpc." +
                      op + " %x, %y : (" + type + ", " + type + ") -> " + type +
                      "\nreturn %0 : " + type + "\n}",
                  target);
  std::vector<T> output(x.size());
  if (kernel.ok())
    kernel.run({x.data(), y.data(), output.data()});
  return output;
}

/// Whether each number has the bits of `function`, or is NaN as well.
template <typename T, typename Function>
static void expectBits(const std::vector<T> &output, Function function,
                       const std::string &name) {
  for (size_t i = 0; i < output.size(); ++i) {
    T expected = function(i);
    // Equal numbers of equal sign have equal bits.
    bool same = output[i] == expected &&
                std::signbit(output[i]) == std::signbit(expected);
    if (!same && !(std::isnan(output[i]) && std::isnan(expected)))
      FAIL() << name << ", element " << i << ": " << output[i] << " instead of "
             << expected;
  }
}

template <typename T> static void checkNative(CpuTarget target) {
  constexpr int64_t count = 4000;
  constexpr bool isFloat = std::is_same_v<T, float>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> x = sample<T>(-100, 100, count),
                 other = sample<T>(-std::numeric_limits<T>::max() / 2,
                                   std::numeric_limits<T>::max() / 2, count);
  x.insert(x.end(), other.begin(), other.end());
  for (T special :
       {T(0), T(1), infinity, T(NAN), std::numeric_limits<T>::denorm_min()})
    x.insert(x.end(), {special, -special});
  std::vector<T> y = x, output(x.size());
  std::shuffle(y.begin(), y.end(), std::mt19937_64(5));
  std::string size = std::to_string(x.size()),
              type = "tensor<" + size + (isFloat ? "xf32>" : "xf64>");
  for (const NativeFunction &function : nativeFunctions()) {
    std::string name = function.name;
    // sin, cos and tan of doubles call libm, for any argument.
    if (!isFloat && (name == "sin" || name == "cos" || name == "tan"))
      continue;
    Compiled kernel(
        "func.func private @k(%x: " + type + ") -> " + type +
            " attributes {mpc.kernel_kind = \"elementwise\"} {\n%0 = mpc." +
            (name == "geluTanh" ? "gelu %x form(tanh)" : name + " %x") + " : " +
            type + "\nreturn %0 : " + type + "\n}",
        target);
    ASSERT_TRUE(kernel.ok());
    kernel.run({x.data(), output.data()});
    expectBits(
        output,
        [&](size_t i) -> T {
          if constexpr (isFloat)
            return function.single(x[i]);
          else
            return function.wide(x[i]);
        },
        target.name().str() + " " + name + type);
  }
  for (const NativeFunction2 &function : nativeFunctions2())
    expectBits(
        runBinary(function.name, target, x, y),
        [&](size_t i) -> T {
          if constexpr (isFloat)
            return function.single(x[i], y[i]);
          else
            return function.wide(x[i], y[i]);
        },
        target.name().str() + " " + function.name + type);
}

// The same text gives the same bits in CUDA's kernels.
TEST(MathAccuracy, BitsOfTheTextThatCudaHas) {
  for (CpuIsa isa : floatLevels()) {
    checkNative<float>(CpuTarget{isa});
    checkNative<double>(CpuTarget{isa});
  }
}

// Functions with f(0) = 0 have a slope there.
TEST(MathAccuracy, ZerosKeepTheirSign) {
  for (const NativeFunction &function : nativeFunctions()) {
    if (function.wide(0) != 0)
      continue;
    EXPECT_FALSE(std::signbit(function.single(0.0f))) << function.name;
    EXPECT_TRUE(std::signbit(function.single(-0.0f))) << function.name;
    EXPECT_FALSE(std::signbit(function.wide(0.0))) << function.name;
    EXPECT_TRUE(std::signbit(function.wide(-0.0))) << function.name;
  }
}

template <typename T> static void checkAngles(CpuTarget target) {
  constexpr int64_t count = 20000;
  // Ratios of all sizes in all quadrants, also of numbers whose sum overflows
  // and of subnormals.
  struct Range {
    T limit, factor;
  };
  for (auto [limit, factor] : {Range{10, 1}, Range{T(1e30), 1},
                               Range{std::numeric_limits<T>::max(), 1},
                               Range{10, std::numeric_limits<T>::min()}}) {
    std::vector<T> x = sample<T>(-limit, limit, count),
                   y = sample<T>(-limit, limit, count);
    std::shuffle(y.begin(), y.end(), std::mt19937_64(5));
    for (int64_t i = 0; i < count; ++i) {
      x[i] *= factor;
      y[i] *= factor;
    }
    std::vector<T> output = runBinary("atan2", target, y, x);
    double worst = 0;
    for (int64_t i = 0; i < count; ++i)
      worst = std::max(worst, ulps(output[i], atan2l(y[i], x[i])));
    EXPECT_LE(worst, 3) << target.name().str() << " up to " << limit * factor;
  }
}

TEST(MathAccuracy, AnglesOfWideRange) {
  for (CpuIsa isa : floatLevels()) {
    checkAngles<float>({isa});
    checkAngles<double>({isa});
  }
}

template <typename T> static void checkSpecialAngles(CpuTarget target) {
  const T infinity = std::numeric_limits<T>::infinity();
  const T values[] = {T(0.0),
                      T(-0.0),
                      T(1),
                      T(-1),
                      infinity,
                      -infinity,
                      std::numeric_limits<T>::quiet_NaN(),
                      std::numeric_limits<T>::denorm_min(),
                      -std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max(),
                      -std::numeric_limits<T>::max()};
  std::vector<T> x, y;
  for (T first : values)
    for (T second : values) {
      x.push_back(first);
      y.push_back(second);
    }
  std::vector<T> output = runBinary("atan2", target, y, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(ulps(output[i], atan2l(y[i], x[i])), 1)
        << target.name().str() << " " << y[i] << ", " << x[i];
    EXPECT_TRUE(std::isnan(output[i]) ||
                std::signbit(output[i]) == std::signbit(std::atan2(y[i], x[i])))
        << target.name().str() << " " << y[i] << ", " << x[i];
  }
}

TEST(MathAccuracy, AnglesOfZerosInfinitiesAndNan) {
  for (CpuIsa isa : floatLevels()) {
    checkSpecialAngles<float>({isa});
    checkSpecialAngles<double>({isa});
  }
}

TEST(MathAccuracy, RoundingTo16BitsIsToNearestEven) {
  // All patterns of the upper half with the interesting lower halves.
  std::vector<float> input;
  for (uint32_t high = 0; high < 0x10000; high += 7)
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu,
                         0x1000u, 0x3000u})
      input.push_back(std::bit_cast<float>(high << 16 | low));
  std::string count = std::to_string(input.size());
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    for (const char *type : {"bf16", "f16"}) {
      std::string from = "tensor<" + count + "xf32>",
                  to = "tensor<" + count + "x" + type + ">";
      Compiled kernel("func.func private @k(%x: " + from + ") -> " + to +
                          " attributes {mpc.kernel_kind = \"elementwise\"} "
                          "{\n%0 = mpc.cast %x : " +
                          from + " to " + to + "\nreturn %0 : " + to + "\n}",
                      target);
      ASSERT_TRUE(kernel.ok());
      std::vector<uint16_t> output(input.size());
      kernel.run({input.data(), output.data()});
      int64_t wrong = 0;
      for (size_t i = 0; i < input.size(); ++i) {
        const llvm::fltSemantics &semantics = type[0] == 'b'
                                                  ? llvm::APFloat::BFloat()
                                                  : llvm::APFloat::IEEEhalf();
        llvm::APFloat value(input[i]);
        bool lost = false;
        value.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
        auto expected =
            static_cast<uint16_t>(value.bitcastToAPInt().getZExtValue());
        if (std::isnan(input[i])) {
          llvm::APFloat actual(semantics, llvm::APInt(16, output[i]));
          wrong += !actual.isNaN();
        } else {
          wrong += output[i] != expected;
        }
      }
      EXPECT_EQ(wrong, 0) << target.name().str() << " " << type;
    }
  }
}

TEST(MathAccuracy, DoublesNarrowInOneRounding) {
  // Just above, at and just below halves of bf16: going through f32 would turn
  // the first and the last into ties.
  std::vector<double> input;
  std::vector<uint16_t> expected;
  for (int i = 0; i < 64; ++i)
    for (double offset : {-0x1p-40, 0.0, 0x1p-40}) {
      double tie = 1.0 + i * 0x1p-7 + 0x1p-8;
      input.push_back(tie + offset);
      int up = offset > 0 || (offset == 0 && i % 2 == 1);
      expected.push_back(static_cast<uint16_t>(0x3f80 + i + up));
    }
  std::string count = std::to_string(input.size());
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    Compiled kernel(
        "func.func private @k(%x: tensor<" + count + "xf64>) -> tensor<" +
            count +
            "xbf16> attributes {mpc.kernel_kind = \"elementwise\"} {\n"
            "%0 = mpc.cast %x : tensor<" +
            count + "xf64> to tensor<" + count + "xbf16>\nreturn %0 : tensor<" +
            count + "xbf16>\n}",
        target);
    ASSERT_TRUE(kernel.ok());
    std::vector<uint16_t> output(input.size());
    kernel.run({input.data(), output.data()});
    EXPECT_EQ(output, expected) << target.name().str();
  }
}

// Small probabilities of a softmax are subnormal numbers, not zeros.
TEST(MathAccuracy, SoftmaxKeepsSubnormalTerms) {
  constexpr int64_t count = 64;
  std::vector<float> input(count), output(count);
  for (int64_t i = 0; i < count; ++i)
    input[i] = i == 0 ? 0.0f : -86.0f - 0.3f * static_cast<float>(i);
  input.back() = -INFINITY;
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    Compiled kernel("func.func private @k(%x: tensor<1x64xf32>) -> "
                    "tensor<1x64xf32> attributes {mpc.kernel_kind = \"row\"} "
                    "{\n%0 = mpc.softmax %x axis(1) : tensor<1x64xf32>\n"
                    "return %0 : tensor<1x64xf32>\n}",
                    target);
    ASSERT_TRUE(kernel.ok());
    kernel.run({input.data(), output.data()});
    for (int64_t i = 0; i < count; ++i)
      EXPECT_LE(ulps(output[i], expl(input[i])), 3)
          << target.name().str() << " " << input[i] << " gives " << output[i];
  }
}
