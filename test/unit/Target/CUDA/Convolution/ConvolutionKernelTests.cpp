//===- ConvolutionKernelTests.cpp - convolutions as CUDA kernels ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "Gemm/GemmTesting.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mpc;

namespace {
/// An image of `height` by `width` under a window; the same pad at all sides.
struct Image {
  int64_t batch, height, width, channels, outputs;
  std::array<int64_t, 2> window = {3, 3}, stride = {1, 1}, low = {1, 1},
                         high = {1, 1}, dilation = {1, 1};
  int64_t groups = 1;
  bool channelsLast = true, epilogue = false;
  std::string flags = {};
};
} // namespace

static std::string tensor(llvm::ArrayRef<int64_t> shape,
                          const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

static std::string kernel(const Image &image, const std::string &type) {
  std::array<int64_t, 2> in = {image.height, image.width}, out;
  for (int i = 0; i < 2; ++i)
    out[i] = (in[i] + image.low[i] + image.high[i] -
              image.dilation[i] * (image.window[i] - 1) - 1) /
                 image.stride[i] +
             1;
  auto shape = [&](std::array<int64_t, 2> extents, int64_t channels) {
    std::vector<int64_t> result = {image.batch, extents[0], extents[1]};
    result.insert(result.begin() + (image.channelsLast ? 3 : 1), channels);
    return result;
  };
  std::string x = tensor(shape(in, image.channels), type);
  std::string w = tensor({image.outputs, image.channels / image.groups,
                          image.window[0], image.window[1]},
                         type);
  std::string sums = tensor(shape(out, image.outputs), "f32");
  std::string low = tensor(shape(out, image.outputs), type);
  std::string bias = image.channelsLast ? tensor({image.outputs}, "f32")
                                        : tensor({image.outputs, 1, 1}, "f32");
  std::string body = llvm::formatv(
      "%0 = mpc.conv %x, %w strides([{0}, {1}]) pad([{2}, {3}], [{4}, {5}]) "
      "dilations([{6}, {7}]) groups({8}) {9} {10} : ({11}, {12}) -> {13}\n",
      image.stride[0], image.stride[1], image.low[0], image.low[1],
      image.high[0], image.high[1], image.dilation[0], image.dilation[1],
      image.groups, image.channelsLast ? "layout(channels_last)" : "",
      image.flags, x, w, sums);
  std::string arguments = "%x: " + x + ", %w: " + w, result = sums,
              value = "%0";
  if (image.epilogue) {
    arguments += ", %b: " + bias + ", %r: " + low;
    body += llvm::formatv(R"(%1 = mpc.add %0, %b : ({0}, {1}) -> {0}
%2 = mpc.cast %r : {2} to {0}
%3 = mpc.add %1, %2 : ({0}, {0}) -> {0}
%4 = mpc.relu %3 : {0}
%5 = mpc.cast %4 : {0} to {2}
)",
                          sums, bias, low)
                .str();
    result = low;
    value = "%5";
  }
  return "func.func private @k(" + arguments + ") -> " + result +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n" + body +
         "return " + value + " : " + result + "\n}\n";
}

static CudaKernelCheck convolution() {
  CudaKernelCheck check;
  check.family = "convolution";
  return check;
}

static void sweep(llvm::ArrayRef<Image> images) {
  CudaKernelBatch batch;
  for (const Image &image : images)
    for (const char *type : {"bf16", "f32"})
      batch.add(kernel(image, type), convolution());
  batch.expect();
}

TEST(ConvolutionKernel, WindowsStridesAndPads) {
  Image stem{1, 11, 13, 3, 8};
  stem.epilogue = true;
  Image strided{2, 9, 8, 8, 16};
  strided.stride = {2, 2};
  strided.epilogue = true;
  Image pointwise{2, 5, 6, 32, 20};
  pointwise.window = {1, 1};
  pointwise.low = pointwise.high = {0, 0};
  pointwise.epilogue = true;
  Image shortcut{1, 7, 7, 16, 32};
  shortcut.window = {1, 1};
  shortcut.low = shortcut.high = {0, 0};
  shortcut.stride = {2, 2};
  Image dilated{1, 12, 11, 8, 8};
  dilated.low = dilated.high = dilated.dilation = {2, 2};
  Image uneven{1, 6, 9, 5, 7};
  uneven.window = {2, 4};
  uneven.stride = {1, 2};
  uneven.low = {0, 1};
  uneven.high = {1, 3};
  Image one{1, 1, 1, 1, 1};
  one.window = {1, 1};
  one.low = one.high = {0, 0};
  sweep({{2, 9, 7, 16, 24},
         stem,
         strided,
         pointwise,
         shortcut,
         dilated,
         uneven,
         one,
         {1, 10, 9, 32, 40}});
}

TEST(ConvolutionKernel, GroupsAndLayouts) {
  Image two{2, 6, 5, 16, 32};
  two.groups = 2;
  two.epilogue = true;
  Image four{1, 5, 5, 12, 20};
  four.groups = 4;
  Image first{2, 6, 7, 8, 12};
  first.channelsLast = false;
  first.epilogue = true;
  sweep({two, four, first});
}

TEST(ConvolutionKernel, FiltersOfOneChannel) {
  Image plain{2, 7, 6, 16, 16};
  plain.groups = 16;
  plain.epilogue = true;
  Image odd{1, 7, 9, 5, 5};
  odd.groups = 5;
  odd.stride = {2, 1};
  Image several{1, 7, 9, 6, 12};
  several.groups = 6;
  Image first{1, 7, 9, 6, 6};
  first.groups = 6;
  first.channelsLast = false;
  sweep({plain, odd, several, first});
}

/// Filters of one channel, stored with outputs last, are read in vectors.
TEST(ConvolutionKernel, FiltersOfOneChannelInVectors) {
  CudaKernelBatch batch;
  for (const char *type : {"bf16", "f32"})
    batch.add(llvm::formatv(R"(
func.func private @k(%x: tensor<2x7x6x16x{0}>, %v: tensor<3x3x1x16x{0}>) -> tensor<2x7x6x16xf32> attributes {{mpc.kernel_kind = "contraction"} {{
  %w = mpc.transpose %v [3, 2, 0, 1] : tensor<3x3x1x16x{0}> to tensor<16x1x3x3x{0}>
  %0 = mpc.conv %x, %w strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(16) layout(channels_last) : (tensor<2x7x6x16x{0}>, tensor<16x1x3x3x{0}>) -> tensor<2x7x6x16xf32>
  return %0 : tensor<2x7x6x16xf32>
})",
                            type)
                  .str(),
              convolution());
  batch.expect();
}

TEST(ConvolutionKernel, OtherTypesAndArchitectures) {
  CudaKernelBatch batch;
  Image image{2, 9, 7, 16, 24}, stem{1, 5, 7, 3, 10};
  image.flags = stem.flags = "compute(tf32)";
  batch.add(kernel(image, "f32"), convolution());
  batch.add(kernel(stem, "f32"), convolution());
  image.flags = stem.flags = "";
  batch.add(kernel(image, "f16"), convolution());
  CudaKernelCheck old = convolution();
  old.target = cudaTarget("sm_75");
  for (const char *type : {"f16", "bf16", "f32"}) {
    batch.add(kernel(image, type), old);
    batch.add(kernel(stem, type), old);
  }
  batch.expect();
}

TEST(ConvolutionKernel, OtherRanks) {
  CudaKernelBatch batch;
  batch.add(R"(
func.func private @k(%x: tensor<2x15x8xf16>, %w: tensor<12x8x5xf16>) -> tensor<2x13x12xf32> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.conv %x, %w strides([1]) pad([1], [1]) dilations([1]) layout(channels_last) : (tensor<2x15x8xf16>, tensor<12x8x5xf16>) -> tensor<2x13x12xf32>
  return %0 : tensor<2x13x12xf32>
})",
            convolution());
  batch.add(R"(
func.func private @k(%x: tensor<1x4x5x6x8xbf16>, %w: tensor<8x8x3x3x3xbf16>) -> tensor<1x4x5x6x8xf32> attributes {mpc.kernel_kind = "contraction"} {
  %0 = mpc.conv %x, %w strides([1, 1, 1]) pad([1, 1, 1], [1, 1, 1]) dilations([1, 1, 1]) layout(channels_last) : (tensor<1x4x5x6x8xbf16>, tensor<8x8x3x3x3xbf16>) -> tensor<1x4x5x6x8xf32>
  return %0 : tensor<1x4x5x6x8xf32>
})",
            convolution());
  batch.expect();
}

/// Filters stored channels last or outputs last, and images with a fused cast,
/// movement or concatenation.
TEST(ConvolutionKernel, OperandsAreReadInPlace) {
  CudaKernelBatch batch;
  auto add = [&](const std::string &arguments, const std::string &before,
                 const std::string &image, const std::string &filter,
                 const std::string &after, const std::string &result) {
    batch.add("func.func private @k(" + arguments + ") -> " + result +
                  " attributes {mpc.kernel_kind = \"contraction\"} {\n" +
                  before + "%0 = mpc.conv " + image + ", " + filter + R"(
    strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) layout(channels_last)
    : (tensor<2x9x7x16xbf16>, tensor<24x16x3x3xbf16>) -> tensor<2x9x7x24xf32>
)" + after,
              convolution());
  };
  std::string end = "return %0 : tensor<2x9x7x24xf32>\n}\n",
              result = "tensor<2x9x7x24xf32>";
  add("%x: tensor<2x9x7x16xbf16>, %v: tensor<24x3x3x16xbf16>",
      "%w = mpc.transpose %v [0, 3, 1, 2] : tensor<24x3x3x16xbf16> to "
      "tensor<24x16x3x3xbf16>\n",
      "%x", "%w", end, result);
  add("%x: tensor<2x9x7x16xbf16>, %v: tensor<3x3x16x24xbf16>",
      "%w = mpc.transpose %v [3, 2, 0, 1] : tensor<3x3x16x24xbf16> to "
      "tensor<24x16x3x3xbf16>\n",
      "%x", "%w", end, result);
  add("%x: tensor<2x16x9x7xf32>, %w: tensor<24x16x3x3xbf16>", R"(
  %c = mpc.cast %x : tensor<2x16x9x7xf32> to tensor<2x16x9x7xbf16>
  %t = mpc.transpose %c [0, 2, 3, 1] : tensor<2x16x9x7xbf16> to tensor<2x9x7x16xbf16>
)",
      "%t", "%w", R"(
  %1 = mpc.transpose %0 [0, 3, 1, 2] : tensor<2x9x7x24xf32> to tensor<2x24x9x7xf32>
  return %1 : tensor<2x24x9x7xf32>
})",
      "tensor<2x24x9x7xf32>");
  add("%x: tensor<2x9x7x8xbf16>, %y: tensor<2x9x7x8xbf16>, %w: "
      "tensor<24x16x3x3xbf16>",
      R"(
  %t = mpc.concat %x, %y axis(3) : (tensor<2x9x7x8xbf16>, tensor<2x9x7x8xbf16>) -> tensor<2x9x7x16xbf16>
)",
      "%t", "%w", end, result);
  batch.expect();
}

TEST(ConvolutionKernel, EveryTile) {
  CudaKernelBatch batch;
  CudaKernelCheck check = convolution();
  check.orders = {ThreadOrder::Shuffled};
  Image image{1, 11, 12, 16, 40};
  image.stride = {1, 2};
  std::string text = kernel(image, "bf16");
  size_t count = tilesOf(text, check.target).size();
  EXPECT_GT(count, 5u);
  for (size_t i = 0; i < count; ++i)
    batch.add(withTiles(text, i, check.target).text, check);
  batch.expect();
}
