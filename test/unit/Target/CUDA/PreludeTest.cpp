//===- PreludeTest.cpp - functions of the kernel prelude ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each function of the host prelude against its definition.
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include <cmath>
#include <functional>

using namespace mpc;

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

class Conversions : public testing::Test {
protected:
  struct Narrowed {
    std::vector<uint16_t> half, bfloat16;
    std::vector<uint32_t> tf32;
  };
  HostModule module = compileKernels(kConversions, {"widen", "narrow"});

  Narrowed narrow(const std::vector<float> &x) {
    Narrowed result;
    result.half.resize(x.size());
    result.bfloat16.resize(x.size());
    result.tf32.resize(x.size());
    int n = static_cast<int>(x.size());
    Status status = module.launch(
        "narrow", grid((n + 255) / 256, 256),
        {HostArgument::input("x", x), HostArgument::output("h", result.half),
         HostArgument::output("b", result.bfloat16),
         HostArgument::output("t", result.tf32), HostArgument::scalar(n)});
    EXPECT_TRUE(status.ok()) << status.toString();
    return result;
  }
};

TEST_F(Conversions, WidenEveryPattern) {
  std::vector<uint16_t> patterns(65536);
  for (int i = 0; i < 65536; ++i)
    patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> fromHalf(65536), fromBfloat16(65536);
  Status status = module.launch(
      "widen", grid(256, 256),
      {HostArgument::input("h", patterns), HostArgument::input("b", patterns),
       HostArgument::output("fromHalf", fromHalf),
       HostArgument::output("fromBfloat16", fromBfloat16)});
  ASSERT_TRUE(status.ok()) << status.toString();
  auto check = [](float value, double expected, int i) {
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(value)) << i;
    else
      ASSERT_EQ(floatBits(value), floatBits(static_cast<float>(expected))) << i;
  };
  for (int i = 0; i < 65536; ++i) {
    check(fromHalf[i], valueOf16(patterns[i], kHalf), i);
    check(fromBfloat16[i], valueOf16(patterns[i], kBfloat16), i);
  }
}

/// For every finite pattern and its upper neighbour: the pattern itself, the
/// midpoint (which rounds to the even one) and the floats next to it.
TEST_F(Conversions, NarrowAroundEveryPattern) {
  for (int exponentBits : {kHalf, kBfloat16}) {
    int infinity = 0x7fff & ~((1 << (15 - exponentBits)) - 1);
    std::vector<float> inputs;
    std::vector<uint16_t> expected;
    auto add = [&](double value, int pattern) {
      inputs.push_back(static_cast<float>(value));
      expected.push_back(static_cast<uint16_t>(pattern));
      inputs.push_back(static_cast<float>(-value));
      expected.push_back(static_cast<uint16_t>(pattern | 0x8000));
    };
    for (int i = 0; i < infinity; ++i) {
      double low = valueOf16(static_cast<uint16_t>(i), exponentBits);
      // Beyond the largest number the next would be the power of two.
      double high =
          i + 1 == infinity
              ? 2 * low - valueOf16(static_cast<uint16_t>(i - 1), exponentBits)
              : valueOf16(static_cast<uint16_t>(i + 1), exponentBits);
      float middle = static_cast<float>((low + high) / 2);
      add(low, i);
      add(middle, i % 2 ? i + 1 : i);
      // There is none if floats are as coarse as half the pattern's spacing.
      if (middle == (low + high) / 2) {
        add(std::nextafter(middle, 0.f), i);
        add(std::nextafter(middle, INFINITY), i + 1);
      } else {
        ADD_FAILURE() << "the midpoint of pattern " << i << " is no float";
      }
    }
    add(INFINITY, infinity);
    Narrowed narrowed = narrow(inputs);
    const auto &patterns =
        exponentBits == kHalf ? narrowed.half : narrowed.bfloat16;
    for (size_t i = 0; i < inputs.size(); ++i)
      ASSERT_EQ(patterns[i], expected[i]) << inputs[i];
  }
}

TEST_F(Conversions, NansAndOverflow) {
  Narrowed narrowed = narrow(
      {floatFromBits(0x7f800001), floatFromBits(0xffc00123), 65519.996f,
       65520.f, 3.4e38f, floatFromBits(0x7f7fffff), floatFromBits(0x1), -0.0f});
  EXPECT_EQ(narrowed.half,
            (std::vector<uint16_t>{0x7fff, 0x7fff, 0x7bff, 0x7c00, 0x7c00,
                                   0x7c00, 0, 0x8000}));
  EXPECT_EQ(narrowed.bfloat16,
            (std::vector<uint16_t>{0x7fff, 0x7fff, 0x4780, 0x4780, 0x7f80,
                                   0x7f80, 0, 0x8000}));
}

TEST_F(Conversions, Tf32TiesGoAwayFromZero) {
  Narrowed narrowed =
      narrow({1.0f, floatFromBits(0x3f801000), floatFromBits(0x3f800fff),
              floatFromBits(0xbf801000), floatFromBits(0x7f7fffff), INFINITY});
  EXPECT_EQ(narrowed.tf32,
            (std::vector<uint32_t>{0x3f800000, 0x3f802000, 0x3f800000,
                                   0xbf802000, 0x7f800000, 0x7f800000}));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
struct MathFunction {
  const char *name;
  double (*reference)(double);
  /// Largest error in units of the last place of the result.
  double units;
};
} // namespace

/// Runs a kernel that computes all functions of each number.
static void checkMath(const char *kernel,
                      const std::vector<MathFunction> &functions) {
  HostModule module = compileKernels(kMath, {kernel});
  std::vector<float> x = {0.f,   -0.f,   INFINITY, -INFINITY, NAN,    1e-40f,
                          1e30f, 88.7f,  89.f,     -103.9f,   -105.f, -87.5f,
                          1e12f, -3e38f, 0.5f,     -0.5f,     1.f,    -1.f};
  for (float value : randomFloats(1500)) {
    x.push_back(value);
    x.push_back(value * 20);
  }
  int n = static_cast<int>(x.size());
  std::vector<float> y(functions.size() * n);
  Status status =
      module.launch(kernel, grid((n + 63) / 64, 64),
                    {HostArgument::input("x", x), HostArgument::output("y", y),
                     HostArgument::scalar(n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  for (size_t f = 0; f < functions.size(); ++f)
    for (int i = 0; i < n; ++i) {
      const MathFunction &function = functions[f];
      bool fast = std::strstr(function.name, "Fast");
      double expected = function.reference(x[i]);
      // The fast functions flush subnormal arguments and results to zero.
      if (fast && std::fabs(x[i]) < 0x1p-126)
        expected = function.reference(std::copysign(0.0, x[i]));
      float actual = y[f * n + i], rounded = static_cast<float>(expected);
      if (fast && std::fabs(rounded) < 0x1p-126)
        rounded = 0;
      SCOPED_TRACE(std::string(function.name) + " of " + std::to_string(x[i]));
      if (std::isnan(rounded) || std::isinf(rounded) || rounded == 0) {
        EXPECT_TRUE(std::isnan(rounded) ? std::isnan(actual)
                                        : actual == rounded)
            << actual << " instead of " << rounded;
        continue;
      }
      double unit = std::max<double>(
          std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded),
          0x1p-149);
      EXPECT_LE(std::fabs(actual - expected), function.units * unit * 1.0001)
          << actual << " instead of " << expected;
    }
}

TEST(PreludeMath, AgainstDouble) {
  checkMath("math",
            {{"exp", [](double v) { return std::exp(v); }, 2},
             {"expm1", [](double v) { return std::expm1(v); }, 2},
             {"log", [](double v) { return std::log(v); }, 3},
             {"log1p", [](double v) { return std::log1p(v); }, 4},
             {"tanh", [](double v) { return std::tanh(v); }, 3},
             {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }, 3},
             {"erf", [](double v) { return std::erf(v); }, 3},
             {"exp2Fast", [](double v) { return std::exp2(v); }, 2},
             {"rcpFast", [](double v) { return 1 / v; }, 2},
             {"sqrt", [](double v) { return std::sqrt(v); }, 0.5},
             {"roundEven", [](double v) { return std::rint(v); }, 0},
             {"floor", [](double v) { return std::floor(v); }, 0},
             {"ceil", [](double v) { return std::ceil(v); }, 0},
             {"trunc", [](double v) { return std::trunc(v); }, 0}});
}

TEST(PreludeMath, SpecialAgainstDouble) {
  auto geluTanh = [](double v) {
    double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    return v / (1 + std::exp(-2 * u));
  };
  checkMath("special",
            {{"rsqrt", [](double v) { return 1 / std::sqrt(v); }, 1.5},
             {"softplus",
              [](double v) {
                return std::isnan(v) ? v
                                     : std::fmax(v, 0.0) +
                                           std::log1p(std::exp(-std::fabs(v)));
              },
              4},
             {"gelu",
              [](double v) { return v * 0.5 * std::erfc(-v * M_SQRT1_2); }, 8},
             // The exponent's rounding, of up to 100, shows in the result.
             {"geluTanh", geluTanh, 150},
             {"sinh", [](double v) { return std::sinh(v); }, 5},
             {"cosh", [](double v) { return std::cosh(v); }, 5},
             {"asinh", [](double v) { return std::asinh(v); }, 5},
             {"acosh", [](double v) { return std::acosh(v); }, 5},
             {"atanh", [](double v) { return std::atanh(v); }, 5},
             {"sin", [](double v) { return std::sin(v); }, 2},
             {"cos", [](double v) { return std::cos(v); }, 2},
             {"tan", [](double v) { return std::tan(v); }, 4},
             {"asin", [](double v) { return std::asin(v); }, 3},
             {"acos", [](double v) { return std::acos(v); }, 3},
             {"atan", [](double v) { return std::atan(v); }, 3},
             {"rem", [](double v) { return std::fmod(v, double(0.7f)); }, 0}});
}

/// Half an ulp of a number near `value` in a type with
/// `digits` mantissa bits and `least` as its smallest number.
static double halfUnit(double value, int digits, double least) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::max(std::ldexp(0.5, exponent - digits), least / 2);
}

TEST(PreludeMath, ShortGeluStaysFarBelowHalfAUnitOf16Bits) {
  // Every number of bf16 and, between them, one in 1021 of f32.
  std::vector<float> x;
  for (uint64_t pattern = 0; pattern < uint64_t(1) << 32; pattern += 1021)
    x.push_back(floatFromBits(uint32_t(pattern)));
  for (uint32_t pattern = 0; pattern < 65536; ++pattern)
    x.push_back(floatFromBits(pattern << 16));
  int n = static_cast<int>(x.size());
  HostModule module = compileKernels(kMath, {"shortGelu"});
  std::vector<float> forBfloat16(n), forHalf(n);
  Status status = module.launch(
      "shortGelu", grid((n + 63) / 64, 64),
      {HostArgument::input("x", x),
       HostArgument::output("forBfloat16", forBfloat16),
       HostArgument::output("forHalf", forHalf), HostArgument::scalar(n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  double largestBfloat16 = 0, largestHalf = 0;
  for (int i = 0; i < n; ++i) {
    // For -infinity as well: -infinity times 0.
    if (std::isnan(x[i]) || x[i] == -INFINITY) {
      ASSERT_TRUE(std::isnan(forBfloat16[i]) && std::isnan(forHalf[i])) << x[i];
      continue;
    }
    if (std::isinf(x[i])) {
      ASSERT_EQ(forBfloat16[i], x[i]);
      ASSERT_EQ(forHalf[i], x[i]);
      continue;
    }
    double expected = double(x[i]) * 0.5 * std::erfc(-x[i] * M_SQRT1_2);
    // Where the power would be subnormal the result is zero: 13 * 2^-126.
    if (std::fabs(expected) > 13 * 0x1p-126 || forBfloat16[i] != 0)
      largestBfloat16 =
          std::max(largestBfloat16, std::fabs(forBfloat16[i] - expected) /
                                        halfUnit(expected, 8, 0x1p-133));
    // Results that round to zero have no error bound.
    if (std::fabs(expected) >= 0x1p-25 || std::fabs(forHalf[i]) >= 0x1p-25)
      largestHalf = std::max(largestHalf, std::fabs(forHalf[i] - expected) /
                                              halfUnit(expected, 11, 0x1p-24));
  }
  // Relative to half an ulp: 1/15 and 1/15.
  EXPECT_LT(largestBfloat16, 0.067);
  EXPECT_GT(largestBfloat16, 0.02);
  EXPECT_LT(largestHalf, 0.067);
}

TEST(PreludeMath, ExtremesPropagateNansAndOrderZeros) {
  HostModule module = compileKernels(kMath, {"extremes"});
  std::vector<float> x = {0.f, -0.f, 1.f, -1.f, INFINITY, -INFINITY, NAN};
  int n = static_cast<int>(x.size());
  std::vector<float> larger(n * n), smaller(n * n);
  Status status = module.launch(
      "extremes", grid(1, 64),
      {HostArgument::input("x", x), HostArgument::output("larger", larger),
       HostArgument::output("smaller", smaller), HostArgument::scalar(n)});
  ASSERT_TRUE(status.ok()) << status.toString();
  auto below = [](float a, float b) {
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
  };
  for (int i = 0; i < n * n; ++i) {
    float a = x[i / n], b = x[i % n];
    if (std::isnan(a) || std::isnan(b)) {
      EXPECT_TRUE(std::isnan(larger[i]) && std::isnan(smaller[i]));
      continue;
    }
    EXPECT_EQ(floatBits(larger[i]), floatBits(below(a, b) ? b : a))
        << a << " " << b;
    EXPECT_EQ(floatBits(smaller[i]), floatBits(below(a, b) ? a : b))
        << a << " " << b;
  }
}

//===----------------------------------------------------------------------===//
// Warps, atomics
//===----------------------------------------------------------------------===//

TEST(PreludeWarps, Shuffles) {
  HostModule module = compileKernels(kWarps, {"shuffles"});
  for (int width : {32, 16, 8, 2})
    for (int by : {0, 1, 3, 7, 16, 31})
      for (ThreadOrder order : kOrders) {
        std::vector<int> out(64);
        Status status = module.launch("shuffles", grid(1, 64, order),
                                      {HostArgument::output("out", out),
                                       HostArgument::scalar(by),
                                       HostArgument::scalar(width)});
        ASSERT_TRUE(status.ok()) << status.toString();
        for (int t = 0; t < 64; ++t) {
          // The manual's source lane: a segment mask and a bound.
          int lane = t % 32, segment = 32 - width, warp = t - lane;
          int maximum = (lane & segment) | (31 & ~segment), source = lane ^ by;
          ASSERT_EQ(out[t], warp + (source <= maximum ? source : lane))
              << "by " << by << " width " << width;
        }
      }
}

TEST(PreludeWarps, ShufflesOfOtherWidths) {
  HostModule module = compileKernels(kWarps, {"wide"});
  std::vector<double> x(32), y(32);
  std::vector<uint16_t> h(32), g(32);
  for (int i = 0; i < 32; ++i) {
    x[i] = 1e100 * i + 1;
    h[i] = static_cast<uint16_t>(0x1234 + i);
  }
  Status status = module.launch(
      "wide", grid(1, 32),
      {HostArgument::input("x", x), HostArgument::output("y", y),
       HostArgument::input("h", h), HostArgument::output("g", g)});
  ASSERT_TRUE(status.ok()) << status.toString();
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], x[i ^ 5]);
    EXPECT_EQ(g[i], h[i ^ 1]);
  }
}

TEST(PreludeWarps, NumbersAndSums) {
  HostModule module = compileKernels(kWarps, {"numbers"});
  for (ThreadOrder order : kOrders) {
    std::vector<unsigned> out(96);
    Status status = module.launch("numbers", grid(1, 96, order),
                                  {HostArgument::output("out", out)});
    ASSERT_TRUE(status.ok()) << status.toString();
    for (int t = 0; t < 96; ++t)
      EXPECT_EQ(out[t], static_cast<unsigned>(t / 32 * 100 + t % 32 + 1));
  }
}

TEST(PreludeWarps, Atomics) {
  HostModule module = compileKernels(kWarps, {"atomics"});
  for (ThreadOrder order : kOrders) {
    std::vector<int> sum = {0, 0};
    std::vector<long long> largest = {0, 0};
    Status status = module.launch("atomics", grid(2, 64, order),
                                  {HostArgument::inOut("sum", sum),
                                   HostArgument::inOut("largest", largest)});
    ASSERT_TRUE(status.ok()) << status.toString();
    EXPECT_EQ(sum, (std::vector<int>{127 * 64, 7}));
    EXPECT_EQ(largest, (std::vector<long long>{127, -1}));
  }
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

TEST(PreludeMatrices, LoadMatrix) {
  HostModule module = compileKernels(kMatrices, {"tiles"});
  std::vector<uint16_t> x(256);
  for (int i = 0; i < 256; ++i)
    x[i] = static_cast<uint16_t>(1000 + i);
  std::vector<uint32_t> out(14 * 32);
  Status status = module.launch(
      "tiles", grid(1, 32),
      {HostArgument::input("x", x), HostArgument::output("out", out)});
  ASSERT_TRUE(status.ok()) << status.toString();
  const int tilesOf[] = {0, 0, 1, 0, 1, 2, 3};
  for (int slot = 0; slot < 14; ++slot)
    for (int t = 0; t < 32; ++t) {
      bool transposed = slot >= 7;
      int tile = tilesOf[slot % 7];
      for (int j = 0; j < 2; ++j) {
        int row = t / 4, column = 2 * (t % 4) + j;
        int from = transposed ? column * 8 + row : row * 8 + column;
        ASSERT_EQ(out[32 * slot + t] >> (16 * j) & 0xffff, x[64 * tile + from])
            << "slot " << slot << " lane " << t;
      }
    }
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

class Copies : public testing::Test {
protected:
  std::vector<float> x = randomFloats(128), early = std::vector<float>(64),
                     late = std::vector<float>(32),
                     last = std::vector<float>(128);
  Status run(const std::string &text, bool checks) {
    HostModule module = compileKernels(text, {"copies"}, checks);
    return module.launch("copies", grid(1, 32),
                         {HostArgument::input("x", x),
                          HostArgument::inOut("early", early),
                          HostArgument::output("late", late),
                          HostArgument::output("last", last)});
  }
};

TEST_F(Copies, LandAtTheirWait) {
  Status status = run(kCopies, /*checks=*/true);
  ASSERT_TRUE(status.ok()) << status.toString();
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(last[i], i < 126 ? x[i] : 0.f);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(late[i], x[i]);
}

TEST_F(Copies, ArePoisonBefore) {
  Status status =
      run("#define EARLY\n" + std::string(kCopies), /*checks=*/false);
  ASSERT_TRUE(status.ok()) << status.toString();
  for (float value : early)
    EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(late, std::vector<float>(x.begin(), x.begin() + 32));
}

TEST_F(Copies, ReadingThemBeforeIsReported) {
  Status status =
      run("#define EARLY\n" + std::string(kCopies), /*checks=*/true);
  EXPECT_EQ(status.text(),
            "kernel 'copies', block (0,0,0), thread (0,0,0): reads shared 'a' "
            "at offset 0, whose asynchronous copy has not completed");
  EXPECT_EQ(status.where(), "kernel.cu:13");
}
