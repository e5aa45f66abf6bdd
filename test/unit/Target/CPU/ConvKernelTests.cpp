//===- ConvKernelTests.cpp - compiled convolutions ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <random>
#include <vector>

using namespace mpc;
using namespace mpc::cpu;

namespace {
/// A convolution of any spatial rank.
struct Conv {
  std::vector<int64_t> input; ///< extents: batch, spatial, channels
  int64_t outputs = 1;
  std::vector<int64_t> window;
  std::vector<int64_t> strides, padLow, padHigh, dilations;
  int64_t groups = 1;
  std::string type = "f32";
  bool channelsLast = true;
  /// 0: plain filter; 1, 2: packed with this interleave; 3: with the depth of
  /// the target's unit for bf16, which is 1 where it has none.
  int interleave = 0;
};
} // namespace

static std::string list(const std::vector<int64_t> &values,
                        const char *separator) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? separator : "") + std::to_string(values[i]);
  return text;
}

static std::string tensor(const std::vector<int64_t> &shape,
                          const std::string &type) {
  return "tensor<" + list(shape, "x") + "x" + type + ">";
}

/// The shape with the channel where the layout has it; `shape` has it last.
static std::vector<int64_t> arranged(std::vector<int64_t> shape,
                                     bool channelsLast) {
  if (!channelsLast)
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

static std::string kernel(Conv c, const CpuTarget &target, bool epilogue) {
  size_t rank = c.window.size();
  auto fill = [&](std::vector<int64_t> &values, int64_t value) {
    if (values.empty())
      values.assign(rank, value);
  };
  fill(c.strides, 1);
  fill(c.dilations, 1);
  fill(c.padLow, 0);
  fill(c.padHigh, 0);
  std::vector<int64_t> out{c.input.front()};
  int64_t window = 1, channels = c.input.back() / c.groups;
  for (size_t i = 0; i < rank; ++i) {
    out.push_back((c.input[1 + i] + c.padLow[i] + c.padHigh[i] -
                   c.dilations[i] * (c.window[i] - 1) - 1) /
                      c.strides[i] +
                  1);
    window *= c.window[i];
  }
  out.push_back(c.outputs);
  std::vector<int64_t> filter{c.outputs, channels};
  filter.insert(filter.end(), c.window.begin(), c.window.end());
  std::string packed;
  if (c.interleave) {
    int64_t columns = target.blockColumns();
    int64_t panels = (c.outputs / c.groups + columns - 1) / columns;
    bool inSteps = c.interleave == 3;
    int64_t depth = inSteps && target.hasDotBf16() ? 2 : 1;
    int64_t run = c.groups == 1 && c.dilations.back() == 1
                      ? c.window.back() * channels
                      : channels;
    filter = {c.groups * panels,
              window * channels / run * ((run + depth - 1) / depth),
              depth * columns};
    packed = llvm::formatv("window([{0}]) packed <columns = {1}, interleave = "
                           "{2}, depth = {3}>",
                           list(c.window, ", "), columns,
                           inSteps ? 1 : c.interleave, depth);
  }
  std::string resultType = c.type == "f64" ? "f64" : "f32";
  std::string x = tensor(arranged(c.input, c.channelsLast), c.type),
              w = tensor(filter, c.type);
  std::string result = tensor(arranged(out, c.channelsLast), resultType);
  std::string text = llvm::formatv(
      "func.func private @k(%x: {0}, %w: {1}, %r: {2}) -> {2} attributes "
      "{{mpc.kernel_kind = \"convolution\"} {{\n",
      x, w, result);
  text += llvm::formatv(
      "%0 = mpc.conv %x, %w strides([{0}]) pad([{1}], [{2}]) dilations([{3}]) "
      "groups({4}) layout({5}) {6} : ({7}, {8}) -> {9}\n",
      list(c.strides, ", "), list(c.padLow, ", "), list(c.padHigh, ", "),
      list(c.dilations, ", "), c.groups,
      c.channelsLast ? "channels_last" : "channels_first", packed, x, w,
      result);
  if (epilogue)
    text += llvm::formatv(
        "%1 = mpc.add %0, %r : ({0}, {0}) -> {0}\n%2 = mpc.relu %1 : {0}\n"
        "return %2 : {0}\n}\n",
        result);
  else
    text += "return %0 : " + result + "\n}\n";
  return text;
}

static void expectConv(const Conv &conv, bool epilogue = false) {
  for (CpuIsa isa : floatLevels()) {
    CpuTarget target{isa};
    std::string text = kernel(conv, target, epilogue);
    EXPECT_EQ(checkKernel(text, target), "") << target.name().str() << "\n"
                                             << text;
  }
}

/// Every filter layout that stage L may pass to the kernel.
static void expectConvInAllForms(Conv conv) {
  expectConv(conv);
  conv.interleave = 1;
  expectConv(conv, /*epilogue=*/true);
  for (const char *type : {"bf16", "f16"}) {
    conv.type = type;
    int forms = conv.type == "bf16" ? 4 : 3;
    for (int interleave = 0; interleave < forms; ++interleave) {
      conv.interleave = interleave;
      expectConv(conv);
    }
  }
}

TEST(ConvKernel, PointwiseIsAMatmul) {
  expectConvInAllForms(
      {.input = {2, 5, 6, 20}, .outputs = 40, .window = {1, 1}});
}

TEST(ConvKernel, PaddedWindow) {
  expectConvInAllForms({.input = {2, 9, 17, 5},
                        .outputs = 35,
                        .window = {3, 3},
                        .padLow = {1, 1},
                        .padHigh = {1, 1}});
}

// Several rows of a narrow image share a block.
TEST(ConvKernel, NarrowImage) {
  expectConvInAllForms({.input = {1, 7, 5, 8},
                        .outputs = 32,
                        .window = {3, 3},
                        .padLow = {1, 1},
                        .padHigh = {1, 1}});
}

TEST(ConvKernel, StridesDilationsAndUnevenPadding) {
  expectConv({.input = {2, 11, 30, 3},
              .outputs = 10,
              .window = {3, 2},
              .strides = {2, 3},
              .padLow = {0, 2},
              .padHigh = {3, 1}});
  expectConv({.input = {1, 12, 14, 4},
              .outputs = 8,
              .window = {3, 3},
              .padLow = {2, 1},
              .padHigh = {1, 3},
              .dilations = {2, 2}});
  expectConv({.input = {1, 56, 56, 8},
              .outputs = 16,
              .window = {1, 1},
              .strides = {2, 2}});
}

TEST(ConvKernel, OneAndThreeSpatialDimensions) {
  expectConvInAllForms({.input = {3, 25, 6},
                        .outputs = 12,
                        .window = {5},
                        .padLow = {2},
                        .padHigh = {2}});
  expectConv({.input = {1, 5, 6, 7, 3},
              .outputs = 9,
              .window = {3, 2, 3},
              .strides = {2, 1, 1},
              .padLow = {1, 0, 1},
              .padHigh = {1, 1, 1}});
}

TEST(ConvKernel, Groups) {
  expectConvInAllForms({.input = {1, 8, 9, 12},
                        .outputs = 6,
                        .window = {3, 3},
                        .padLow = {1, 1},
                        .padHigh = {1, 1},
                        .groups = 3});
}

TEST(ConvKernel, OneFilterPerChannel) {
  expectConvInAllForms({.input = {2, 10, 11, 37},
                        .outputs = 37,
                        .window = {3, 3},
                        .padLow = {1, 1},
                        .padHigh = {1, 1},
                        .groups = 37});
  expectConv({.input = {1, 9, 9, 64},
              .outputs = 64,
              .window = {5, 3},
              .strides = {2, 2},
              .groups = 64},
             /*epilogue=*/true);
}

TEST(ConvKernel, WideType) {
  Conv conv{.input = {1, 6, 20, 5},
            .outputs = 11,
            .window = {3, 3},
            .padLow = {1, 1},
            .padHigh = {1, 1},
            .type = "f64"};
  expectConv(conv);
  conv.interleave = 1;
  expectConv(conv, /*epilogue=*/true);
}

// Negative padding leaves input out; a filter may see nothing but padding.
TEST(ConvKernel, UnusualPadding) {
  expectConv({.input = {1, 8, 9, 3},
              .outputs = 5,
              .window = {2, 2},
              .padLow = {-1, -2},
              .padHigh = {-1, 1}});
  expectConv({.input = {1, 2, 2, 3},
              .outputs = 5,
              .window = {2, 2},
              .padLow = {4, 4},
              .padHigh = {4, 4}});
}

// Tiles of one row skip the rows of the window above and below the image: some
// or all of its rows, also if the reduction over the depth is split.
TEST(ConvKernel, RowsOfPadding) {
  expectConvInAllForms({.input = {2, 3, 40, 70},
                        .outputs = 20,
                        .window = {3, 3},
                        .padLow = {4, 1},
                        .padHigh = {2, 1}});
  expectConvInAllForms({.input = {1, 9, 31, 6},
                        .outputs = 20,
                        .window = {4, 2},
                        .strides = {2, 1},
                        .padLow = {5, 0},
                        .padHigh = {6, 0},
                        .dilations = {3, 1}});
}

// A sum over no channels is zero.
TEST(ConvKernel, NoChannels) {
  for (const char *type : {"f32", "bf16"})
    for (bool channelsLast : {false, true}) {
      Conv conv{.input = {1, 11, 2, 0}, .outputs = 8, .window = {3, 1}};
      conv.type = type;
      conv.channelsLast = channelsLast;
      expectConv(conv);
    }
}

// Shapes that nobody thought of.
TEST(ConvKernel, RandomShapes) {
  std::mt19937 engine(11);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine);
  };
  for (int i = 0; i < 16; ++i) {
    Conv conv;
    int64_t rank = draw(1, 3);
    conv.groups = draw(0, 2) == 0 ? draw(1, 4) : 1;
    conv.input.push_back(draw(1, 2));
    for (int64_t dim = 0; dim < rank; ++dim) {
      conv.window.push_back(draw(1, 3));
      conv.dilations.push_back(draw(1, 2));
      conv.strides.push_back(draw(1, 2));
      conv.padLow.push_back(draw(0, 2));
      conv.padHigh.push_back(draw(0, 2));
      conv.input.push_back(draw(5, rank == 3 ? 8 : 20));
    }
    conv.input.push_back(conv.groups * draw(1, 20));
    conv.outputs = conv.groups * draw(1, 40);
    const char *types[] = {"f32", "bf16", "f16"};
    conv.type = types[draw(0, 2)];
    conv.interleave = draw(0, conv.type == "f32" ? 1 : 2);
    if (conv.type == "bf16" && conv.interleave == 2)
      conv.interleave = draw(2, 3);
    conv.channelsLast = draw(0, 3) != 0;
    expectConv(conv, draw(0, 1) == 1);
  }
}

TEST(ConvKernel, ChannelsFirst) {
  expectConv({.input = {2, 9, 10, 5},
              .outputs = 7,
              .window = {3, 3},
              .padLow = {1, 1},
              .padHigh = {1, 1},
              .channelsLast = false},
             /*epilogue=*/true);
  expectConv({.input = {2, 9, 10, 6},
              .outputs = 6,
              .window = {3, 3},
              .groups = 6,
              .channelsLast = false});
  expectConv({.input = {2, 4, 4, 6},
              .outputs = 40,
              .window = {1, 1},
              .channelsLast = false});
}
