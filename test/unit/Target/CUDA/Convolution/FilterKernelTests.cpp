//===- FilterKernelTests.cpp - gradients of convolution filters -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FilterTesting.h"

#include "gtest/gtest.h"

using namespace mpc;

/// Images $I, gradients $G, filter $F, window attributes $W.
static const char *const kFilter = R"(
func.func private @k(%x: tensor<$Ix$T>, %g: tensor<$Gx$T>) -> tensor<$Fx$R>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g $W : (tensor<$Ix$T>, tensor<$Gx$T>) -> tensor<$Fx$R>
  return %0 : tensor<$Fx$R>
})";

// In both forms: both layouts; channels that fill vectors and tiles, and
// others; windows that reach over every side; strides and dilations; one and
// three dimensions.
TEST(CudaFilterGradient, ShapesAndLayouts) {
  FilterBatch batch(/*products=*/6);
  auto add = [&](const char *image, const char *gradient, const char *filter,
                 const char *attributes) {
    batch.add(kFilter, {{"$I", image},
                        {"$G", gradient},
                        {"$F", filter},
                        {"$W", attributes},
                        {"$T", "f32"},
                        {"$R", "f32"}});
  };
  add("2x3x8x9", "2x4x8x9", "4x3x3x3",
      "strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])");
  add("2x8x9x8", "2x6x7x12", "12x8x3x3",
      "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) "
      "layout(channels_last)");
  add("3x9x7x5", "3x4x3x6", "6x5x3x3",
      "strides([2, 3]) pad([1, 1], [0, 1]) dilations([1, 1]) "
      "layout(channels_last)");
  add("1x4x11x6", "1x5x7x6", "5x4x3x1",
      "strides([1, 1]) pad([0, 0], [0, 0]) dilations([2, 1])");
  add("2x3x20", "2x4x10", "4x3x4", "strides([2]) pad([1], [1]) dilations([1])");
  add("1x4x4x4x4", "1x3x3x3x8", "8x4x2x2x2",
      "strides([1, 1, 1]) pad([0, 0, 0], [0, 0, 0]) dilations([1, 1, 1]) "
      "layout(channels_last)");
}

TEST(CudaFilterGradient, Groups) {
  FilterBatch batch(/*products=*/0);
  for (const char *layout : {"channels_first", "channels_last"}) {
    bool last = std::string(layout) == "channels_last";
    batch.add(kFilter,
              {{"$I", last ? "2x6x6x8" : "2x8x6x6"},
               {"$G", last ? "2x6x6x12" : "2x12x6x6"},
               {"$F", "12x2x3x3"},
               {"$W", std::string("strides([1, 1]) pad([1, 1], [1, 1]) "
                                  "dilations([1, 1]) groups(4) layout(") +
                          layout + ")"},
               {"$T", "f32"},
               {"$R", "f32"}});
  }
}

// 16-bit operands are summed in f32 and rounded once, f64 in f64; many lines
// are split over blocks, whose counters are clear for the next launch.
TEST(CudaFilterGradient, TypesAndSplits) {
  FilterBatch batch(/*products=*/3);
  for (auto [type, result] :
       {std::pair("f16", "f32"), std::pair("bf16", "bf16"),
        std::pair("f64", "f64"), std::pair("f32", "f32")})
    batch.add(kFilter, {{"$I", "8x14x14x4"},
                        {"$G", "8x14x14x8"},
                        {"$F", "8x4x3x3"},
                        {"$W", "strides([1, 1]) pad([1, 1], [1, 1]) "
                               "dilations([1, 1]) layout(channels_last)"},
                        {"$T", type},
                        {"$R", result}});
}

/// A filter gradient and, first, a bias gradient: the image of $S downcast to
/// $T, the gradient of $T accumulated in f32; both stored as $R.
static const char *const kFilterAndBias = R"(
func.func private @k(%x: tensor<$Ix$S>, %g: tensor<$Gx$T>) -> (tensor<$Ox$R>, tensor<$Fx$R>)
    attributes {mpc.kernel_kind = "library"} {
  $X
  $B
  %b = mpc.reduce_sum %w axes([$A]) : tensor<$Gxf32> -> tensor<$Oxf32>
  %f = mpc.conv_filter_gradient %n, %g $W : (tensor<$Ix$T>, tensor<$Gx$T>) -> tensor<$Fxf32>
  $C
})";

namespace {
struct BiasCase {
  const char *image, *gradient, *filter, *outputs, *axes, *attributes;
};
} // namespace

/// Adds the case with the given element types.
static void addBias(FilterBatch &batch, const BiasCase &at,
                    const std::string &image, const std::string &type,
                    const std::string &result) {
  auto cast = [](std::string name, std::string of, std::string shape,
                 std::string from, std::string to) {
    return "%" + name + " = mpc.cast %" + of + " : tensor<" + shape + "x" +
           from + "> to tensor<" + shape + "x" + to + ">\n";
  };
  std::string text = kFilterAndBias;
  auto put = [&](const std::string &key, const std::string &value) {
    text = substitute(text, {{key, value}});
  };
  bool isNarrowed = image != type, isWidened = type != "f32",
       isStored = result != "f32";
  put("$X", isNarrowed ? cast("n", "x", at.image, image, type) : "");
  put("$B", isWidened ? cast("w", "g", at.gradient, type, "f32") : "");
  put("$C", (isStored ? cast("rb", "b", at.outputs, "f32", result) +
                            cast("rf", "f", at.filter, "f32", result)
                      : std::string()) +
                "return " + (isStored ? "%rb, %rf" : "%b, %f") +
                " : tensor<$Ox$R>, tensor<$Fx$R>");
  if (!isNarrowed)
    put("%n", "%x");
  if (!isWidened)
    put("%w", "%g");
  batch.add(text, {{"$I", at.image},
                   {"$G", at.gradient},
                   {"$F", at.filter},
                   {"$O", at.outputs},
                   {"$A", at.axes},
                   {"$W", at.attributes},
                   {"$S", image},
                   {"$T", type},
                   {"$R", result}});
}

// Windows that reach over every side, where the bias counts positions that the
// filter does not; channels that fill tiles and others; both layouts; groups;
// one block and many.
TEST(CudaFilterGradient, WithTheBias) {
  FilterBatch batch(/*products=*/8);
  const BiasCase cases[] = {
      {"2x3x8x9", "2x4x8x9", "4x3x3x3", "4", "0, 2, 3",
       "strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1])"},
      {"3x9x7x5", "3x4x3x6", "6x5x3x3", "6", "0, 1, 2",
       "strides([2, 3]) pad([1, 1], [0, 1]) dilations([1, 1]) "
       "layout(channels_last)"},
      {"2x8x9x8", "2x6x7x12", "12x8x3x3", "12", "0, 1, 2",
       "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) "
       "layout(channels_last)"},
      {"2x6x6x8", "2x6x6x12", "12x2x3x3", "12", "0, 1, 2",
       "strides([1, 1]) pad([1, 1], [1, 1]) dilations([1, 1]) groups(4) "
       "layout(channels_last)"},
      {"4x16x16x1", "4x14x14x8", "8x1x3x3", "8", "0, 1, 2",
       "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) "
       "layout(channels_last)"},
      {"2x3x20", "2x4x10", "4x3x4", "4", "0, 2",
       "strides([2]) pad([1], [1]) dilations([1])"},
  };
  for (const BiasCase &at : cases)
    addBias(batch, at, "f32", "f32", "f32");
  addBias(batch, cases[2], "bf16", "bf16", "f32");
  addBias(batch, cases[4], "f32", "bf16", "f32");
  addBias(batch, cases[4], "f32", "f16", "f16");
}

// The image downcast and the result stored in 16 bits without a bias.
TEST(CudaFilterGradient, Casts) {
  FilterBatch batch(/*products=*/2);
  for (const char *type : {"f16", "bf16"})
    batch.add(R"(
func.func private @k(%x: tensor<2x8x8x4xf32>, %g: tensor<2x6x6x8x$T>) -> tensor<8x4x3x3x$T>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.cast %x : tensor<2x8x8x4xf32> to tensor<2x8x8x4x$T>
  %1 = mpc.conv_filter_gradient %0, %g strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1]) layout(channels_last) : (tensor<2x8x8x4x$T>, tensor<2x6x6x8x$T>) -> tensor<8x4x3x3xf32>
  %2 = mpc.cast %1 : tensor<8x4x3x3xf32> to tensor<8x4x3x3x$T>
  return %2 : tensor<8x4x3x3x$T>
})",
              {{"$T", type}});
}
