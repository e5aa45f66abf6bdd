//===- HalfFunctionsTests.cpp - every input of the 16-bit functions -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All 65,536 f16 and bf16 inputs of each elementwise function. Kernels compute
// in f32 with an error of at most 4 units in the last place and round once, so
// the result is within half a unit of the 16-bit format and a little.
//
//===----------------------------------------------------------------------===//

#include "CompiledKernel.h"
#include "KernelRunner.h"
#include "mpc/Reference/Tensor.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mpc;
using namespace mpc::cpu;

namespace {

using Function = long double (*)(long double);

struct Case {
  const char *op;
  Function function;
};

long double relu(long double x) { return x > 0 || std::isnan(x) ? x : 0; }
long double leaky(long double x) { return x >= 0 ? x : 0.01f * x; }
long double elu(long double x) { return x >= 0 ? x : 1.5L * expm1l(x); }
long double sign(long double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
long double rsqrt(long double x) { return 1 / sqrtl(x); }
long double reciprocal(long double x) { return 1 / x; }
long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
long double silu(long double x) { return x / (1 + expl(-x)); }
long double softplus(long double x) {
  return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}
long double gelu(long double x) {
  return x * (erfcl(-x * 0.70710678118654752440084436L) / 2);
}

const Case kCases[] = {
    {"abs", fabsl},
    {"neg", [](long double x) { return -x; }},
    {"sign", sign},
    {"floor", floorl},
    {"ceil", ceill},
    {"round", nearbyintl},
    {"relu", relu},
    {"leaky_relu %x alpha(0.01)", leaky},
    {"elu %x alpha(1.5)", elu},
    {"exp", expl},
    {"expm1", expm1l},
    {"log", logl},
    {"log1p", log1pl},
    {"sqrt", sqrtl},
    {"rsqrt", rsqrt},
    {"reciprocal", reciprocal},
    {"sin", sinl},
    {"cos", cosl},
    {"tan", tanl},
    {"asin", asinl},
    {"acos", acosl},
    {"atan", atanl},
    {"sinh", sinhl},
    {"cosh", coshl},
    {"tanh", tanhl},
    {"asinh", asinhl},
    {"acosh", acoshl},
    {"atanh", atanhl},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"softplus", softplus},
    {"erf", erfl},
    {"gelu", gelu},
};

struct Format {
  const char *name;
  int precision, least, most;
};
const Format kFormats[] = {{"f16", 11, -14, 15}, {"bf16", 8, -126, 127}};

constexpr int64_t kCount = 65536;

/// |actual - expected| in units in the last place of `format`; infinity where
/// only one is finite or NaN.
double ulps(double actual, long double expected, const Format &format) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) == std::isnan(expected) ? 0 : INFINITY;
  // From half an ulp above the largest number on, results are infinite.
  long double limit =
      std::ldexp(2 - std::ldexp(1.0L, -format.precision), format.most);
  if (std::isinf(actual) || std::isinf(expected)) {
    bool same = (actual > 0) == (expected > 0);
    bool large = fabsl(expected) >= limit * (1 - 1e-6L);
    return std::isinf(actual) && same && large ? 0 : INFINITY;
  }
  int exponent;
  frexpl(expected, &exponent);
  exponent = std::min(std::max(exponent - 1, format.least), format.most);
  long double unit = std::ldexp(1.0L, exponent - format.precision + 1);
  return static_cast<double>(fabsl(actual - expected) / unit);
}

/// Error of a function in f32 before it is rounded: four ulps of f32, or
/// for gelu the bound in lib/Target/Math/Short.h.
double extraUlps(llvm::StringRef op, const Format &format) {
  if (!op.starts_with("gelu"))
    return 4 * std::ldexp(1.0, format.precision - 24);
  return format.precision == 11 ? std::ldexp(1.0, 11 - 17) : 0.11;
}

} // namespace

TEST(HalfFunctions, EveryInputIsWithinItsBound) {
  mlir::MLIRContext context;
  for (const Format &format : kFormats) {
    mlir::Type element = format.precision == 11
                             ? mlir::Type(mlir::Float16Type::get(&context))
                             : mlir::BFloat16Type::get(&context);
    auto tensorType = mlir::RankedTensorType::get({kCount}, element);
    std::vector<uint16_t> input(kCount), output(kCount);
    for (int64_t i = 0; i < kCount; ++i)
      input[i] = static_cast<uint16_t>(i);
    auto numbers = reference::Tensor::fromBytes(tensorType, input.data());
    std::string type = "tensor<65536x" + std::string(format.name) + ">";
    for (const Case &c : kCases) {
      std::vector<long double> expected;
      for (double x : numbers.floats())
        expected.push_back(c.function(x));
      std::string op = c.op;
      if (op.find("%x") == std::string::npos)
        op += " %x";
      for (CpuIsa isa : floatLevels()) {
        CpuTarget target{isa};
        Compiled kernel(
            "func.func private @k(%x: " + type + ") -> " + type +
                " attributes {mpc.kernel_kind = \"elementwise\"} {\n%0 = mpc." +
                op + " : " + type + "\nreturn %0 : " + type + "\n}",
            target);
        ASSERT_TRUE(kernel.ok()) << op;
        kernel.run({input.data(), output.data()});
        auto actual = reference::Tensor::fromBytes(tensorType, output.data());
        double worst = 0;
        int64_t where = 0;
        for (int64_t i = 0; i < kCount; ++i) {
          double error = ulps(actual.floats()[i], expected[i], format);
          if (error > worst) {
            worst = error;
            where = i;
          }
        }
        EXPECT_LE(worst, 0.5 + extraUlps(op, format))
            << target.name().str() << " " << format.name << " " << op << " of "
            << numbers.floats()[where] << " is " << actual.floats()[where]
            << " instead of " << static_cast<double>(expected[where]);
      }
    }
  }
}
