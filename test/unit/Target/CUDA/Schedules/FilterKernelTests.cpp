//===- FilterKernelTests.cpp - gradients of convolution filters -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopKernelText.h"

#include "gtest/gtest.h"

using namespace mpc;

/// Images $I, gradients $G, filter $F, window attributes $W.
static const char *const kFilter = R"(
func.func private @k(%x: tensor<$Ix$T>, %g: tensor<$Gx$T>) -> tensor<$Fx$R>
    attributes {mpc.kernel_kind = "library"} {
  %0 = mpc.conv_filter_gradient %x, %g $W : (tensor<$Ix$T>, tensor<$Gx$T>) -> tensor<$Fx$R>
  return %0 : tensor<$Fx$R>
})";

// Both layouts; channels that fill vectors and tiles, and others; windows that
// reach over every side; strides and dilations; one and three dimensions.
TEST(CudaFilterGradient, ShapesAndLayouts) {
  FamilyBatch batch("filter");
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
  FamilyBatch batch("filter");
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
  FamilyBatch batch("filter");
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
