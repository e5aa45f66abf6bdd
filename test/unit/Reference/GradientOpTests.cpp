//===- GradientOpTests.cpp - backward ops against their forward ops -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each gradient is checked against the forward op alone: linear ops by their
// adjoint, max_pool by a small step, attention by central differences.
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

double dot(const Tensor &a, const Tensor &b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a.floats(), b.floats()))
    sum += x * y;
  return sum;
}

/// `base + factor * direction`.
Tensor moved(Tensor base, const Tensor &direction, double factor) {
  for (auto [x, d] : llvm::zip_equal(base.floats(), direction.floats()))
    x += factor * d;
  return base;
}

class GradientOpTest : public ReferenceTest {
protected:
  /// Along a random direction, each operand's gradient equals the slope of
  /// `g` of the forward op's result.
  template <typename Forward>
  void expectSlopes(ArrayRef<Tensor> operands, ArrayRef<Tensor> gradients,
                    const Tensor &g, Forward forward, const char *name) {
    ASSERT_EQ(gradients.size(), operands.size());
    constexpr double step = 0x1p-18;
    for (size_t i = 0; i < operands.size(); ++i) {
      std::string text;
      llvm::raw_string_ostream(text) << operands[i].getType();
      Tensor d = random(text);
      SmallVector<Tensor> up(operands), down(operands);
      up[i] = moved(operands[i], d, step);
      down[i] = moved(operands[i], d, -step);
      double slope = (dot(forward(up), g) - dot(forward(down), g)) / (2 * step);
      EXPECT_NEAR(dot(gradients[i], d), slope,
                  1e-6 * std::sqrt(dot(g, g) * dot(d, d)))
          << name << " operand " << i;
    }
  }
};

//===----------------------------------------------------------------------===//
// conv_filter_gradient
//===----------------------------------------------------------------------===//

struct ConvCase {
  const char *input, *filter, *gradient, *attributes;
};

TEST_F(GradientOpTest, FilterGradientIsTheAdjointOfConv) {
  const ConvCase cases[] = {
      {"tensor<3x4x9xf64>", "tensor<5x4x3xf64>", "tensor<3x5x9xf64>",
       "strides([1]) pad([1], [1]) dilations([1])"},
      {"tensor<2x4x7x6xf64>", "tensor<6x2x3x2xf64>", "tensor<2x6x3x4xf64>",
       "strides([2, 1]) pad([1, 0], [0, 1]) dilations([1, 3]) groups(2)"},
      {"tensor<2x7x6x4xf64>", "tensor<6x4x3x3xf64>", "tensor<2x3x3x6xf64>",
       "strides([2, 2]) pad([0, 1], [0, 1]) dilations([1, 1]) "
       "layout(channels_last)"},
      {"tensor<2x6x6x4xf64>", "tensor<4x1x3x3xf64>", "tensor<2x4x4x4xf64>",
       "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) groups(4) "
       "layout(channels_last)"},
      {"tensor<1x2x4x4x4xf64>", "tensor<3x2x2x2x2xf64>",
       "tensor<1x3x2x2x2xf64>",
       "strides([2, 2, 2]) pad([0, 0, 0], [0, 0, 0]) dilations([1, 1, 1])"},
  };
  for (const ConvCase &c : cases) {
    auto apply = [&](StringRef op, Tensor a, Tensor b, StringRef result) {
      std::string text;
      llvm::raw_string_ostream(text)
          << "mpc." << op << " %0, %1 " << c.attributes << " : (" << a.getType()
          << ", " << b.getType() << ") -> " << result;
      return run(text, {a, b}, {result})[0];
    };
    Tensor x = random(c.input), w = random(c.filter), g = random(c.gradient);
    Tensor gradient = apply("conv_filter_gradient", x, g, c.filter);
    double along = dot(apply("conv", x, w, c.gradient), g);
    EXPECT_NEAR(dot(gradient, w), along,
                1e-11 * std::sqrt(dot(g, g) * dot(w, w)))
        << c.attributes;
  }
}

TEST_F(GradientOpTest, FilterGradientSumsInItsAccumulateType) {
  // 2049 ones are no f16, and are f32.
  Tensor ones(type("tensor<1x1x2049xf16>"));
  llvm::fill(ones.floats(), 1.0);
  auto sum = [&](StringRef accumulate) {
    return run(("mpc.conv_filter_gradient %0, %0 strides([1]) pad([0], [0]) "
                "dilations([1]) accumulate(" +
                accumulate +
                ") : (tensor<1x1x2049xf16>, tensor<1x1x2049xf16>) -> "
                "tensor<1x1x1xf32>")
                   .str(),
               {ones}, {"tensor<1x1x1xf32>"}, Rounding::Declared)[0];
  };
  expectNear(sum("f32"), {2049}, 0);
  expectNear(sum("f16"), {2048}, 0);
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

struct PoolCase {
  const char *input, *gradient, *window;
};
const PoolCase poolCases[] = {
    {"tensor<2x3x8xf64>", "tensor<2x3x4xf64>",
     "window([2]) strides([2]) pad([0], [0]) dilations([1])"},
    {"tensor<2x3x7x6xf64>", "tensor<2x3x4x6xf64>",
     "window([3, 3]) strides([2, 1]) pad([1, 1], [1, 1]) dilations([1, 1])"},
    {"tensor<2x7x6x3xf64>", "tensor<2x4x3x3xf64>",
     "window([2, 2]) strides([2, 2]) pad([0, 0], [0, 0]) dilations([1, 1]) "
     "ceil_mode layout(channels_last)"},
};

TEST_F(GradientOpTest, AveragePoolGradientIsItsAdjoint) {
  for (const PoolCase &c : poolCases)
    for (StringRef include : {"", "count_include_pad "}) {
      // `count_include_pad` comes before `layout`.
      std::string window = c.window;
      size_t at = window.find("layout");
      window.insert(at == std::string::npos ? window.size() : at,
                    " " + include.str());
      Tensor x = random(c.input), g = random(c.gradient);
      std::string to = std::string(c.input) + " -> " + c.gradient,
                  from = std::string(c.gradient) + " -> " + c.input;
      Tensor y =
          run("mpc.avg_pool %0 " + window + " : " + to, {x}, {c.gradient})[0];
      Tensor gradient = run("mpc.avg_pool_gradient %0 " + window + " : " + from,
                            {g}, {c.input})[0];
      EXPECT_NEAR(dot(gradient, x), dot(y, g),
                  1e-12 * std::sqrt(dot(x, x) * dot(g, g)))
          << window;
    }
}

TEST_F(GradientOpTest, MaxPoolGradientIsItsSlope) {
  for (const PoolCase &c : poolCases) {
    std::string types = std::string(c.input) + " -> " + c.gradient;
    Tensor x = random(c.input), g = random(c.gradient), d = random(c.input);
    auto pool = [&](const Tensor &input) {
      return run("mpc.max_pool %0 " + std::string(c.window) + " : " + types,
                 {input}, {c.gradient})[0];
    };
    Tensor gradient =
        run("mpc.max_pool_gradient %0, %1 " + std::string(c.window) + " : (" +
                c.input + ", " + c.gradient + ") -> " + c.input,
            {x, g}, {c.input})[0];
    // Too small a step to change which element is the largest.
    constexpr double step = 0x1p-30;
    double slope = (dot(pool(moved(x, d, step)), g) - dot(pool(x), g)) / step;
    EXPECT_NEAR(dot(gradient, d), slope, 1e-4) << c.window;
  }
}

TEST_F(GradientOpTest, MaxPoolGradientGoesToTheFirstOfEqualElements) {
  expectFloats("mpc.max_pool_gradient %0, %1 window([2, 2]) strides([1, 1]) "
               "pad([0, 0], [0, 0]) dilations([1, 1]) : (tensor<1x1x2x3xf32>, "
               "tensor<1x1x1x2xf32>) -> tensor<1x1x2x3xf32>",
               {floats("tensor<1x1x2x3xf32>", {1, 2, 2, 2, 1, 0}),
                floats("tensor<1x1x1x2xf32>", {10, 1})},
               "tensor<1x1x2x3xf32>", {0, 11, 0, 0, 0, 0});
  expectFloats("mpc.max_pool_gradient %0, %1 window([3]) strides([3]) pad([0], "
               "[0]) dilations([1]) : (tensor<1x1x3xf32>, tensor<1x1x1xf32>) "
               "-> tensor<1x1x3xf32>",
               {floats("tensor<1x1x3xf32>", {5, kNan, kNan}),
                floats("tensor<1x1x1xf32>", {10})},
               "tensor<1x1x3xf32>", {0, 10, 0});
}

TEST_F(GradientOpTest, OverlappingWindowsAreSummedInF32) {
  // 2048 + 1 is 2048 in f16, and so is each later step: only f32 accumulation
  // gives 2052.
  expectFloats(
      "mpc.max_pool_gradient %0, %1 window([5]) strides([1]) pad([4], [4]) "
      "dilations([1]) : (tensor<1x1x1xf16>, tensor<1x1x5xf16>) -> "
      "tensor<1x1x1xf16>",
      {floats("tensor<1x1x1xf16>", {1}),
       floats("tensor<1x1x5xf16>", {2048, 1, 1, 1, 1})},
      "tensor<1x1x1xf16>", {2052}, 0, Rounding::Declared);
}

//===----------------------------------------------------------------------===//
// norm_gradient
//===----------------------------------------------------------------------===//

struct NormCase {
  const char *op, *attribute, *input, *scale, *attributes;
};

TEST_F(GradientOpTest, NormGradientIsItsSlope) {
  const NormCase cases[] = {
      {"layer_norm", "", "tensor<3x7xf64>", "tensor<7xf64>",
       "axis(1) epsilon(0.01)"},
      {"layer_norm", "", "tensor<2x3x4xf64>", "tensor<4xf64>",
       "axis(1) epsilon(0.01)"},
      {"rms_norm", " root_mean_square", "tensor<2x3x4xf64>", "tensor<3x1xf64>",
       "axis(1) epsilon(0.01)"},
      {"rms_norm", " root_mean_square", "tensor<5xf64>", "tensor<f64>",
       "axis(0) epsilon(0.5)"},
  };
  for (const NormCase &c : cases) {
    SmallVector<Tensor> operands = {random(c.input), random(c.scale)};
    Tensor g = random(c.input);
    std::string types = std::string(c.input) + ", " + c.scale;
    auto forward = [&](ArrayRef<Tensor> inputs) {
      return run(std::string("mpc.") + c.op + " %0, %1 " + c.attributes +
                     " : (" + types + ") -> " + c.input,
                 inputs, {c.input})[0];
    };
    SmallVector<Tensor> arguments(operands);
    arguments.push_back(g);
    SmallVector<Tensor> gradients =
        run(std::string("mpc.norm_gradient %0, %1, %2 ") + c.attributes +
                c.attribute + " : (" + types + ", " + c.input + ") -> (" +
                types + ")",
            arguments, {c.input, c.scale});
    expectSlopes(operands, gradients, g, forward, c.op);
  }
}

TEST_F(GradientOpTest, BatchNormGradientIsItsSlope) {
  std::string x = "tensor<4x3x2xf64>", c = "tensor<3xf64>";
  SmallVector<Tensor> operands = {random(x), random(c), random(c)};
  Tensor g = random(x), statistics = random(c);
  auto forward = [&](ArrayRef<Tensor> inputs) {
    SmallVector<Tensor> arguments(inputs);
    arguments.append({statistics, statistics});
    return run("mpc.batch_norm_training %0, %1, %2, %3, %4 epsilon(0.01) "
               "momentum(0.1) : (" +
                   x + ", " + c + ", " + c + ", " + c + ", " + c + ") -> (" +
                   x + ", " + c + ", " + c + ")",
               arguments, {x, c, c})[0];
  };
  SmallVector<Tensor> gradients =
      run("mpc.batch_norm_gradient %0, %1, %2 epsilon(0.01) : (" + x + ", " +
              c + ", " + x + ") -> (" + x + ", " + c + ", " + c + ")",
          {operands[0], operands[1], g}, {x, c, c});
  expectSlopes(operands, gradients, g, forward, "batch_norm");
}

//===----------------------------------------------------------------------===//
// attention_gradient
//===----------------------------------------------------------------------===//

struct AttentionCase {
  const char *query, *key, *value, *gradient, *mask, *attributes;
};

TEST_F(GradientOpTest, AttentionGradientIsItsSlope) {
  const AttentionCase cases[] = {
      {"tensor<2x3x5xf64>", "tensor<2x4x5xf64>", "tensor<2x4x6xf64>",
       "tensor<2x3x6xf64>", "", "scale(0.5)"},
      {"tensor<1x4x5x3xf64>", "tensor<1x2x5x3xf64>", "tensor<1x2x5x3xf64>",
       "tensor<1x4x5x3xf64>", "", "scale(0.7) causal"},
      {"tensor<2x2x3x4xf64>", "tensor<2x1x5x4xf64>", "tensor<2x1x5x2xf64>",
       "tensor<2x2x3x2xf64>", "tensor<2x1x1x5xf64>", "scale(0.5)"},
      {"tensor<1x2x3x4xf64>", "tensor<1x2x3x4xf64>", "tensor<1x2x3x4xf64>",
       "tensor<1x2x3x4xf64>", "tensor<3x3xi1>", "scale(0.5)"},
  };
  for (const AttentionCase &c : cases) {
    SmallVector<Tensor> operands = {random(c.query), random(c.key),
                                    random(c.value)};
    Tensor g = random(c.gradient);
    std::string types = std::string(c.query) + ", " + c.key + ", " + c.value;
    StringRef maskType = c.mask;
    SmallVector<Tensor> mask;
    if (maskType.contains("f64"))
      mask.push_back(random(maskType));
    else if (!maskType.empty()) // the last row keeps nothing
      mask.push_back(ints(maskType, {1, 0, 1, 0, 1, 1, 0, 0, 0}));
    auto forward = [&](ArrayRef<Tensor> inputs) {
      SmallVector<Tensor> arguments(inputs);
      llvm::append_range(arguments, mask);
      return run("mpc.attention %0, %1, %2 " +
                     std::string(mask.empty() ? "" : "mask(%3) ") +
                     c.attributes + " : (" + types +
                     (mask.empty() ? "" : ", " + maskType.str()) + ") -> " +
                     c.gradient,
                 arguments, {c.gradient})[0];
    };
    SmallVector<Tensor> arguments(operands);
    arguments.push_back(g);
    llvm::append_range(arguments, mask);
    SmallVector<Tensor> gradients =
        run("mpc.attention_gradient %0, %1, %2, %3 " +
                std::string(mask.empty() ? "" : "mask(%4) ") + c.attributes +
                " : (" + types + ", " + c.gradient +
                (mask.empty() ? "" : ", " + maskType.str()) + ") -> (" + types +
                ")",
            arguments, {c.query, c.key, c.value});
    expectSlopes(operands, gradients, g, forward, c.attributes);
  }
}

TEST_F(GradientOpTest, AttentionGradientRoundsItsFactors) {
  // The f16 result differs from float64 by a few ulps.
  SmallVector<Tensor> operands = {
      random("tensor<2x8x8xf16>"), random("tensor<2x8x8xf16>"),
      random("tensor<2x8x8xf16>"), random("tensor<2x8x8xf16>")};
  auto gradients = [&](Rounding rounding) {
    return run("mpc.attention_gradient %0, %1, %2, %3 scale(0.35) : "
               "(tensor<2x8x8xf16>, tensor<2x8x8xf16>, tensor<2x8x8xf16>, "
               "tensor<2x8x8xf16>) -> (tensor<2x8x8xf16>, tensor<2x8x8xf16>, "
               "tensor<2x8x8xf16>)",
               operands,
               {"tensor<2x8x8xf16>", "tensor<2x8x8xf16>", "tensor<2x8x8xf16>"},
               rounding);
  };
  SmallVector<Tensor> exact = gradients(Rounding::Float64),
                      rounded = gradients(Rounding::Declared);
  for (size_t i = 0; i < 3; ++i) {
    Tensor difference = moved(rounded[i], exact[i], -1);
    double error =
        std::sqrt(dot(difference, difference) / dot(exact[i], exact[i]));
    EXPECT_GT(error, 0x1p-14);
    EXPECT_LT(error, 0x1p-9);
  }
}

} // namespace
